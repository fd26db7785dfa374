"""The patterns by which the checks of captions know failures, markup and damage."""

from __future__ import annotations

import re

#: The characters of markup, one of which nearly every text with markup has.
_SIGNS = re.compile(r"[<>\[{*#`&:\\_|$\n@\ufffd▁Ġ◁•ÃÂâ\x00-\x08\x0b-\x1f\x7f]")
#: The beginnings of the others: an item of a list, and what Python prints.
_BEGINNINGS = re.compile(r"\s*(?:-|\d+[.)])\s|\(|b['\"]")
#: Three words or more of ASCII letters, with blanks and commas between them and at most a full stop at the end.
_PLAIN = re.compile(r"[A-Za-z]+ [A-Za-z]+ [A-Za-z][A-Za-z ,]*+\.? *")


def is_plain(text: str) -> bool:
    """Tell whether a text is three words or more, as nearly all captions are, without digits, tokens or signs but commas and a full stop."""
    return _PLAIN.fullmatch(text) is not None and not _holds_token(text)


def may_hold_markup(text: str) -> bool:
    """Tell whether a text may hold markup; a text that `is_plain` does not."""
    has_sign = _SIGNS.search(text) is not None or _BEGINNINGS.match(text) is not None
    return has_sign or _holds_token(text)


def _holds_token(text: str) -> bool:
    """Tell whether a text may hold a model's token that is made of letters alone, such as `startseq`."""
    return "seq" in text or "UNK" in text


MISSING = re.compile(
    r"(?:nan|none|null|nil|n\.?/?a|undefined|missing|unknown|unanswerable|not[ _]available|to[ _]?do|tbd|false|true|empty"
    r"|[+-]?inf(?:inity)?)\.?|<na>|#(?:n/a|name|ref|value|num|null|div/0|spill|calc|getting_data)[?!]?"
    r"|[\[(<]?no[ _-]?(?:caption|description|answer|response|output|text)[\])>]?"
    r"|[\[(<](?:none|null|nan|empty|blank|unknown|error|n/?a|missing)[\])>]",
    re.IGNORECASE,
)
#: The beginning of a text that is a failed request or a refusal.
FAILURE_BEGINNINGS = re.compile(
    r"""
      \s*(?:
        (?:an?\ )?(?:\w+\ )?error\b(?:\s*[:(]|\s+(?:code|occurred|\d)|\s*$)
      | http\s?[45]\d\d\b.{0,40}$
      | [45]\d\d\s*[:-]?\s*(?:(?:not\ found|internal|too\ many|bad|service|gateway|forbidden|unauthori[sz]ed|server|client|conflict)\b.{0,30}$)
      | i\ (?:don['’]t|do\ not)\ know\b.{0,12}$
      | (?:too\ many\ requests|bad\ gateway|service\ unavailable)\b
      | (?:the\ )?(?:image|file|picture|photo|url)\ (?:is\ |was\ |could\ |can)?(?:not|n['’]t)\ (?:be\ )?(?:found|available|loaded|provided|opened|read|displayed)\b
      | no\ (?:image|picture|photo)\ (?:was\ |is\ |has\ been\ )?(?:provided|found|attached|uploaded|available|given)\b
      | please\ (?:provide|upload|share|attach|try\ again)\b
      | (?:i\ )?(?:apologi[sz]e|my\ apologies)\b
      | (?:i['’]?m\ |i\ am\ )?unable\ to\ (?:assist|help|see|view|access|process|provide|describe|identify|analy[sz]e|generate|load|determine|parse)\b
      | (?:je\ suis\ )?désolée?\b
      | entschuldigung\b
      | lo\ siento\b
      | (?:me\ )?(?:desculpe|perdón|perdona)\b
      | mi\ dispiace\b
      | извините\b
      | я\ не\ могу\b
      | (?:no|empty)\ (?:response|answer|caption|output)\b.{0,25}$
      | (?:(?:i['’]?m|i\ am|we\ are|we['’]re)\ )?(?:very\ |so\ )?sorry\b[\s,.!:;-]*
            (?:$|but\b|i\b|we\ (?:can|could|do|are\ (?:un|not))
            |for\ (?:the|any)\ (?:inconvenience|errors?|confusion|trouble)(?=\W*$|\s*[,.!;:-]|\ (?:but|caused|this|that|and|i|we)\b)|about\ (?:that|the|this)|something\b
            |unable\b|can['’]?t\b|cannot\b|could\ not\b|not\ able\b|no\ (?:image|caption|description|answer|response)\b|your\ request\b|as\ an\b
            |th(?:e|is|at)\ (?:image|picture|photo|video|file|request|content|service|model|server)\b|there\ (?:is|was|are|seems)\b|it\ (?:seems|looks|appears)\b)
      )
    | \W*(?:
        (?:blocked|filtered|time[ -]?out|timed[ ]out|fail(?:ed|ure)?|skip(?:ped)?|aborted|cancell?ed|safety|recitation
            |prohibited_content|blocklist|max_tokens|content_filter(?:ed)?)\W*$
      | finish_?reason\b
      | (?:content|request|response|prompt|output|answer)\ (?:blocked|filtered|rejected|refused|denied)\W*$
      )
    | traceback\ \(most\ recent
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: What such texts say in any place. All phrases share one `\b` in front: `re` tries them only where a word begins or ends.
FAILURE_PHRASES = re.compile(
    r"""
    \b(?:
        failed\ to\ (?:obtain|get|generate|fetch|load|process|parse)\b
      | (?:api|request|server|connection|timeout|rate\ limit|runtime|value|type|key|json)\s?error\b
      | out\ of\ memory\b
      | (?:request|response|prompt|output|content)\ (?:was|were|has\ been)\ (?:blocked|filtered|rejected|flagged|denied)\b
      | (?:request|connection|operation|response)\ (?:timed\ out|was\ blocked|refused)\b
      | blocked\ (?:by|due\ to)\b.*\b(?:safety|filter|policy)
      | (?:there\ is|i\ see|i\ don['’]t\ see|i\ do\ not\ see)\ (?:no|an?|any)\ (?:image|picture|photo)\ (?:provided|attached|here|in\ your)
      | tut\ mir\ leid\b
      | het\ spijt\ me\b
      | rate\ limit\b
      | exceeded\ your\b.*\bquota\b
      | i\ (?:can['’]t|can(?:\ )?not|won['’]t|am\ (?:unable|not\ able)\ to)\ (?:assist|help|see|view|access|process|provide
            |describe|identify|analy[sz]e|comply|fulfil|generate|continue|do|discuss|caption)
      | i['’]m\ (?:unable|not\ able)\ to\b
      | as\ an?\ (?:ai\b|(?:large\ )?language\ model)
      | (?:violat\w*|breach\w*|against|trigger\w*|due\ to|because\ of|result\ of|(?:filtered|blocked|flagged|rejected)\ by|per)\b
            [^.]{0,60}\bcontent[ _](?:management\ |moderation\ |safety\ )?(?:policy|policies|filter)
      | content[ _](?:management\ |moderation\ |safety\ )?(?:policy|policies|filter(?:ing)?)[ _]
            (?:violat\w*|error|blocked|triggered|prevent\w*|stopped|result\w*|do(?:es)?\ not|prohibits?|forbids?|was|has)\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: The same in Chinese, Japanese, Korean and Arabic.
FAILURE_SIGNS = re.compile(
    r"申し訳|すみません|죄송|できません|عذر[اًا]|抱歉|对不起|無法|无法(?:回答|提供|描述)"
)
#: A lower-case ASCII text without any of these is no failure, which settles nearly all captions quickly. Parts with the same
#: first letter are one alternative, so that `re` compares first letters alone in most places.
FAILURE_PARTS = re.compile(
    r"[45]| ai|a(?:nswer|polog|ttached|bort)|block|c(?:aption|ontent|ancel)|d(?:enied|esculp|ispiace)|e(?:rror|ntschuld)"
    r"|f(?:ail|iltered|lagged|inish)|gateway|in your|know|l(?:imit|anguage|eid)|m(?:emory|ax_tokens)"
    r"|n(?:ot|'t|o (?:image|picture|photo|description))|output|p(?:lease|rovided|rohibited|erdon)|quota"
    r"|r(?:equest|esponse|efuse|ejected|ecitation)|s(?:orry|kip|afety|iento|pijt)|t(?:raceback|imed|ime-?\s?out)"
    r"|un(?:available|able)"
)
THOUGHTS = re.compile(
    r"</?(?:think|thinking|thought|thoughts|reasoning|scratchpad)>|◁/?think▷|<\|channel\|>",
    re.IGNORECASE,
)
TURNS = re.compile(
    r"""
      (?:^|[\n.!?>\]])\s*(?:USER|ASSISTANT|HUMAN|SYSTEM|BOT|GPT|AI)\s?:
    | ^\s*Assistant\s?:
    | ^\s*(?:Answer|Response)\s?:\s*(?:\Z|[^\W\d_]*[A-Z]|(?:an?|the|one|two|three|several|some|many|people|this|there|it|yes|no)\b)
    | ^\s*(?:User|Human|System|Prompt|Question|Q)\s?:.*(?:\?|\b(?:Assistant|Answer|Response|Bot|Model|Output|GPT|AI|A)\s?:)
    | ^\s*(?:user|assistant|human|system|model)\s*\n
    | \[/?INST\] | \#\#\#\s?(?:Human|Assistant|User|Response|Instruction)\b
    | <(?:start|end)_of_turn>
    """,
    re.VERBOSE | re.DOTALL,
)
#: What may be a turn of a chat, and a caption may have too: "Question: mark on a wall", "Answer: key of a test".
MAYBE_TURNS = re.compile(
    r"^\s*(?:User|Human|System|Bot|Model|Question|Answer|Response|Output|Prompt|Q|A)\s?:|\s(?:USER|ASSISTANT|HUMAN|SYSTEM|BOT|GPT|AI)\s?:"
)
#: The same letters over and over, of a script that sets no blanks between words.
LOOP_OF_LETTERS = re.compile(r"([^\W\d_]{2,12}?)\1{3,}")
#: A number alone, such as a class, a score or an index.
NUMBER = re.compile(r"\s*[+-]?\d[\d.,:/%+-]*\s*")
#: Full-width Latin letters, which equal no others, in a text without Chinese or Japanese.
WIDE = re.compile(
    r"[^\u3040-\u30ff\u4e00-\u9fff]*[\uff21-\uff3a\uff41-\uff5a][^\u3040-\u30ff\u4e00-\u9fff]*"
)
#: Signs without width within a word.
INVISIBLE = re.compile(r"(?<=[A-Za-z])[\u200b\u2060\ufeff\u00ad](?=[A-Za-z])")
#: The words with which a caption of several begins, and hardly a later sentence of one description.
INDEFINITE = re.compile(
    r"(?:an?|one|two|three|four|five|several|some|many|people|man|woman|there)\b", re.IGNORECASE
)
TOKENS = re.compile(
    r"""
      <\|[^<>|]{1,40}\|> | </?s> | </w> | (?:^|\s)\#\#(?!s\b)\w | [▁Ġ]
    | (?<!\S)(?<!the\s)(?<!early\s)(?<!late\s)(?<!mid\s)\#\#s\b  # digits of years are hidden so: "in the ##s"
    | <(?:pad|unk|eos|bos|sos|eot|eoc|sep|cls|mask|image|img|video|start|end|startseq|endseq|endoftext|end_of_utterance)>
    | \[(?:pad|sep|cls|unk|eos|bos|mask|img|image|start|end)\] | \b(?:start|end)seq\b
    | \w@@(?:\s|\Z) | (?-i:\bUNK\b)
    | <(?!/?(?:p|br|b|i|em|strong|div|span|a|li|ul|ol|h\d|caption|answer|body|html|think|thinking|thoughts?|reasoning|scratchpad
        |na|start_of_turn|end_of_turn)\b)[\w/|][\w/|:.-]{0,40}>
    """,
    re.IGNORECASE | re.VERBOSE,
)
MARKDOWN = re.compile(
    r"\*\*|\b__\w|\w__\b|```|\]\(https?://|^\s{0,3}(?:\#{1,6}\s|[-*•]\s+\S|>\s|\d{1,2}[.)]\s+\S)",
    re.MULTILINE,
)
LATEX = re.compile(
    r"\\[a-zA-Z]+\{|\\[%&$#_]|^\s*\$[^$]+\$\s*$|\\(?:text(?:bf|it)|begin|end|item)\b"
)
WRONG_CODE = re.compile(r"Ã[\x80-\xbf©¨¡¢§ª«®¯°±²³´µ¶·¸¹º»¼½¾¿]|â€|Â[\xa0-\xbf]")
#: Signs that steer a terminal or a program; a tab, a line end and a form feed are blanks.
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
HTML = re.compile(
    r"</?(?:p|br|b|i|em|strong|div|span|a|li|ul|ol|h\d|caption|answer|body|html)\b[^<>]*>"
    r"|&(?:amp|quot|lt|gt|nbsp|apos|\#\d+);",
    re.IGNORECASE,
)
ESCAPES = re.compile(r"\\[ntr\"'](?![a-z]*\{)|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}")
PRINTED_OBJECT = re.compile(
    r"""\s*\{\s*["'].*["']\s*:.*\}\s*|\s*\[object \w+\]\s*|\s*b(?:'.*'|".*")\s*""", re.DOTALL
)
LEAD_IN = re.compile(
    r"\s*(?:(?:in\s+)?(?:the|this)\s+(?:given\s+|provided\s+)?(?:image|picture|photo|photograph|video|scene|audio)\b"
    r"|(?:this\s+is\s+)?an?\s+(?:image|picture|photo|photograph|video)\s+(?:of|showing|depicting)\b"
    r"|(?:sure|certainly|here\s+is|here['’]s)\b|(?:image\s+)?(?:caption|description)\s*:)",
    re.IGNORECASE,
)
