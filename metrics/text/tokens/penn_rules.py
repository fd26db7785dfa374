"""The grammar of Penn Treebank tokens: the strings that are one token, and its spelling.

Sources: the Treebank's tokenisation rules (Marcus et al. 1993; MacIntyre 1995), and the behaviour of
Stanford's PTBTokenizer of CoreNLP 3.4.1, whose word lists and character sets these are.
`tests/parity/test_penn.py` shows state by state that both have the same matches. `automaton` parses the
patterns, `penn` carries out the actions.

A pattern is a regular expression: literals match in both cases, character classes as they are
written, `{name}` stands for a pattern of `PARTS`, within a class for a set of `SETS`. At each place
the longest match counts, its follower included; of equally long ones the first. Some rules look odd
on purpose: they are the Java program's, slips included.
"""

from __future__ import annotations

import re


def _class(table: str) -> str:
    r"""Write hexadecimal ranges as in a character class, such as `\u0041-\u005a\u00aa` for `41-5a aa`."""

    def write_character(code: re.Match[str]) -> str:
        return f"\\u{code[0]:0>4}"

    ranges = re.sub("[0-9a-f]+", write_character, table)
    return "".join(ranges.split())


def _list_words(text: str) -> list[str]:
    return text.split()


def _any(words: list[str]) -> str:
    return "(" + "|".join(words) + ")"


#: Letters of Unicode 6.0 within the first plane.
LETTERS = """
41-5a 61-7a aa b5 ba c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee 370-374 376-377 37a-37d 386
388-38a 38c 38e-3a1 3a3-3f5 3f7-481 48a-527 531-556 559 561-587 5d0-5ea 5f0-5f2 620-64a
66e-66f 671-6d3 6d5 6e5-6e6 6ee-6ef 6fa-6fc 6ff 710 712-72f 74d-7a5 7b1 7ca-7ea 7f4-7f5 7fa
800-815 81a 824 828 840-858 8a0 8a2-8ac 904-939 93d 950 958-961 971-977 979-97f 985-98c
98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bd 9ce 9dc-9dd 9df-9e1 9f0-9f1 a05-a0a a0f-a10 a13-a28
a2a-a30 a32-a33 a35-a36 a38-a39 a59-a5c a5e a72-a74 a85-a8d a8f-a91 a93-aa8 aaa-ab0 ab2-ab3
ab5-ab9 abd ad0 ae0-ae1 b05-b0c b0f-b10 b13-b28 b2a-b30 b32-b33 b35-b39 b3d b5c-b5d b5f-b61
b71 b83 b85-b8a b8e-b90 b92-b95 b99-b9a b9c b9e-b9f ba3-ba4 ba8-baa bae-bb9 bd0 c05-c0c
c0e-c10 c12-c28 c2a-c33 c35-c39 c3d c58-c59 c60-c61 c85-c8c c8e-c90 c92-ca8 caa-cb3 cb5-cb9
cbd cde ce0-ce1 cf1-cf2 d05-d0c d0e-d10 d12-d3a d3d d4e d60-d61 d7a-d7f d85-d96 d9a-db1
db3-dbb dbd dc0-dc6 e01-e30 e32-e33 e40-e46 e81-e82 e84 e87-e88 e8a e8d e94-e97 e99-e9f
ea1-ea3 ea5 ea7 eaa-eab ead-eb0 eb2-eb3 ebd ec0-ec4 ec6 edc-edf f00 f40-f47 f49-f6c f88-f8c
1000-102a 103f 1050-1055 105a-105d 1061 1065-1066 106e-1070 1075-1081 108e 10a0-10c5 10c7 10cd
10d0-10fa 10fc-1248 124a-124d 1250-1256 1258 125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5
12b8-12be 12c0 12c2-12c5 12c8-12d6 12d8-1310 1312-1315 1318-135a 1380-138f 13a0-13f4 1401-166c
166f-167f 1681-169a 16a0-16ea 1700-170c 170e-1711 1720-1731 1740-1751 1760-176c 176e-1770
1780-17b3 17d7 17dc 1820-1877 1880-18a8 18aa 18b0-18f5 1900-191c 1950-196d 1970-1974 1980-19ab
19c1-19c7 1a00-1a16 1a20-1a54 1aa7 1b05-1b33 1b45-1b4b 1b83-1ba0 1bae-1baf 1bba-1be5 1c00-1c23
1c4d-1c4f 1c5a-1c7d 1ce9-1cec 1cee-1cf1 1cf5-1cf6 1d00-1dbf 1e00-1f15 1f18-1f1d 1f20-1f45
1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc
1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2071 207f 2090-209c 2102 2107 210a-2113 2115
2119-211d 2124 2126 2128 212a-212d 212f-2139 213c-213f 2145-2149 214e 2183-2184 2c00-2c2e
2c30-2c5e 2c60-2ce4 2ceb-2cee 2cf2-2cf3 2d00-2d25 2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6
2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce 2dd0-2dd6 2dd8-2dde 2e2f 3005-3006 3031-3035
303b-303c 3041-3096 309d-309f 30a1-30fa 30fc-30ff 3105-312d 3131-318e 31a0-31ba 31f0-31ff
3400-4db5 4e00-9fcc a000-a48c a4d0-a4fd a500-a60c a610-a61f a62a-a62b a640-a66e a67f-a697
a6a0-a6e5 a717-a71f a722-a788 a78b-a78e a790-a793 a7a0-a7aa a7f8-a801 a803-a805 a807-a80a
a80c-a822 a840-a873 a882-a8b3 a8f2-a8f7 a8fb a90a-a925 a930-a946 a960-a97c a984-a9b2 a9cf
aa00-aa28 aa40-aa42 aa44-aa4b aa60-aa76 aa7a aa80-aaaf aab1 aab5-aab6 aab9-aabd aac0 aac2
aadb-aadd aae0-aaea aaf2-aaf4 ab01-ab06 ab09-ab0e ab11-ab16 ab20-ab26 ab28-ab2e abc0-abe2
ac00-d7a3 d7b0-d7c6 d7cb-d7fb f900-fa6d fa70-fad9 fb00-fb06 fb13-fb17 fb1d fb1f-fb28 fb2a-fb36
fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d fd50-fd8f fd92-fdc7 fdf0-fdfb fe70-fe74
fe76-fefc ff21-ff3a ff41-ff5a ff66-ffbe ffc2-ffc7 ffca-ffcf ffd2-ffd7 ffda-ffdc
"""

#: Characters that stand within a word as letters do, mostly marks.
MARKS = """
2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-36f 375 378-379 384-385 3f6 483-487 55a-55f 591-5bd 5bf
5c1-5c2 5c4-5c5 5c7 615-61a 64b-65e 670 6d6-6e4 6e7-6ed 6fd-6fe 70f 711 730-74c 7a6-7b0
7eb-7f3 900-903 93c 93e-94e 951-955 962-963 981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3
a01-a03 a3c a3e-a4f a81-a83 abc abe-acf b82 bbe-bc2 bc6-bc8 bca-bcd c01-c03 c3e-c56 d3e-d44
d46-d48 e31 e34-e3a e47-e4e eb1 eb4-ebc ec8-ecd
"""

#: The zeros of the digits; nine more follow each.
ZEROS = """
30 660 6f0 7c0 966 9e6 a66 ae6 b66 be6 c66 ce6 d66 e50 ed0 f20 1040 1090 17e0 1810 1946 19d0
1a80 1a90 1b50 1bb0 1c40 1c50 a620 a8d0 a900 a9d0 aa50 abf0 ff10
"""

#: Signs that are a token by themselves.
SIGNS = """
25 a1 a6-a9 ac ae-b1 b4 b6-b8 bf d7 f7 37e 387 589 5be 5c0 5c3 5c6 5f3-5f4 600-603 606-60a 60c
614 61b 61e-61f 66a 66d 6d4 700-70d 7f6-7f8 964-965 e4f 1fbd 2016-2017 2020-2023 2030-2038
203b 203e-2042 207c-207e 208c-208e 2100-2101 2103-2106 2108-2109 2114 2116-2118 211e-2123 2125
2127 2129 212e 213a-213b 2140-2144 214a-214d 214f 2190-24b5 24d0-2bff 3002 3012 30fb ff01-ff0f
ff1a-ff20 ff3b-ff40 ff5b-ff65
"""


def _upper() -> str:
    """Write Java's capitals: letters, numerals and letters in circles; Cherokee had none yet."""
    capitals: list[str] = []
    for part in LETTERS.split():
        first, _, last = part.partition("-")
        for code in range(int(first, 16), int(last or first, 16) + 1):
            letter = chr(code)
            is_cherokee = "\u13a0" <= letter <= "\u13f4"
            if letter.isupper() and not is_cherokee:
                capitals.append(letter)

    return "".join(capitals) + r"\u2160-\u216f\u24b6-\u24cf"


def _digits() -> str:
    """Write the ranges of the digits from their zeros."""
    ranges: list[str] = []
    for zero in ZEROS.split():
        first = int(zero, 16)
        ranges.append(f"\\u{first:04x}-\\u{first + 9:04x}")

    return "".join(ranges)


SETS = {
    "letter": _class(LETTERS),
    "mark": _class(MARKS) + r"\u00ad",
    "digit": _digits(),
    "sign": _class(SIGNS),
    "upper": _upper(),
    "space": r" \t\u00a0\u2000-\u200a\u3000",
    # cp1252 left some of its quotes and dashes among the control characters.
    "apostrophe": r"'\u0092\u2019",
    "tick": r"'\u0092\u2019`\u0091\u2018\u201b",
    "hyphen": r"\-_\u058a\u2010\u2011",
}


# Abbreviations, without their full stop. After these the next sentence may begin ...
ENDING = _list_words(
    r"""
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri
    Ala Ariz [A]z [A]rk Calif Colo Conn Ct Dak [D]el Fla Ga [I]ll Ind Kan Kans Ky [L]a [M]ass Md
    Mich Minn [M]iss Mo Mont Neb Nev Okla [O]re [P]a Penn Tenn [T]ex Va Vt [W]ash Wis Wisc Wyo
    Inc Co Cos Corp Pt[y] Pt[e] Pt[y]s Pt[e]s Ppt[y] Ppt[e] Ppt[y]s Ppt[e]s Ltd Plc Rt Bancorp Bhd
    Assn Univ Intl Sys tel est ext sq Jr Sr Bros Ed\.D Ph\.D Blvd Rd Esq etc al seq Bldg
    """
)
# ... after these a name or the like follows ...
LEADING = _list_words(
    r"""
    Mr Mrs Ms [M]iss Dr Drs Prof Profs Sen Sens Rep Reps Atty Attys Lt Col Gen Messrs Gov Govs Adm
    Rev Maj Sgt Cpl Pvt Capt St Ste Ave Pres Lieut Hon Brig Cmdr Comdr Pfc Spc Supt Supts Det Mt Ft
    Adj Adv Asst Assoc Ens Insp Mlle Mme Msgr Sfc vs Alex Wm Jos Cie a\.k\.a cf TREAS Ph Invt Elec
    Natl M[f]g M[t]g Dept
    """
)
# ... and after these a number.
NUMBERED = _list_words("ca fig figs prop no nos art bldg pp op")

# Read as two words.
CONTRACTED = _list_words("gonna gotta lemme gimme wanna")

# Behind an acronym these begin a new sentence.
OPENERS = _list_words(
    r"""
    [A]bout [A]ccording [A]dditionally [A]fter [A]n [A] [A]s [A]t [B]ut [E]arlier [H]e [H]er [H]ere
    [H]owever [I]f [I]n [I]t [L]ast [M]any [M]ore [M]r\. [M]s\. [N]ow [O]nce [O]ne [O]ther [O]ur
    [S]he [S]ince [S]o [S]ome [S]uch [T]hat [T]he [T]heir [T]hen [T]here [T]hese [T]hey [T]his [W]e
    [W]hen [W]hile [W]hat [Y]et [Y]ou
    """
)

EXTENSIONS = _list_words(
    r"""
    bat bmp c class cgi cpp dll doc docx exe gif gz h htm html jar java jpeg jpg mov mp3 pdf php pl
    png ppt ps py sql tar txt wav x xml zip
    """
)

PARTS = {
    "d": "[{digit}]",
    "tag_name": "[A-Za-z][A-Za-z0-9_:.-]*",
    # A declaration or a comment; an opening tag, perhaps with attributes; a closing tag.
    "tag": (
        r"<([!?][A-Za-z-][^>\r\n]*"
        r"""|{tag_name}( +{tag_name}( *= *('[^']*'|"[^"]*"))?)* */?"""
        r"|/{tag_name}) *>"
    ),
    "amp": "&amp;",
    "accented": "&[aeiouAEIOU](acute|grave|uml);",
    "line": r"\r|\r?\n|[\u000b\u000c\u0085\u2028\u2029]",
    "gap": "[{space}]|{line}",
    "alnum": "[{letter}{mark}{digit}]|{accented}",
    "word": "([{letter}{mark}]|{accented}){alnum}*([.!?]([{letter}{mark}]|{accented}){alnum}*)*",
    "number": r"{d}+([.:,\u00ad\u066b\u066c]{d}+)*|([.:,\u00ad\u066b\u066c]{d}+)+",
    "over": r"(\\?/|\u2044)",
    "apos": "[{apostrophe}]|&apos;",
    "tick": "[{tick}]|&apos;",
    "ending": "({apos})([msdMSD]|re|ve|ll)",
    "not": "n({tick})t",
    "dotted": r"(Canada|Sino|Korean|EU|Japan|non)-U\.S|U\.S\.-(U\.K|U\.S\.S\.R)",
    "acronym": r"[A-Za-z](\.[A-Za-z])*|{dotted}",
    "elided": "([dDoOlL]({tick})[{letter}{digit}])?[{letter}{digit}]+",
    "joined": "{elided}([{hyphen}]{elided})*",
    # A word, and behind hyphens further words, or acronyms with their last full stop.
    "hyphenated": (
        r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*"
        r"(-([A-Za-z0-9\u00ad]+|([A-Za-z](\.[A-Za-z])+|{dotted})\.))+"
    ),
    "slashed": r"[A-Za-z0-9]+(-[A-Za-z]+)?(-[A-Za-z]+)?",
    "ampersands": "[A-Z]+(([+&]|{amp})[A-Z]+)+",
    "short": _any(ENDING) + r"\.",
    "pause": r"[,;:\u3001]",
    "wide": r"[^ \t\n\f\r\"<>|.!?(){},\-]",
    # `,-_` is a range, in which digits and capitals are: a slip of the program's.
    "host": r"[^ \t\n\f\r\"`'<>|.!?(){},-_$]",
    "www": r"[^ \t\n\f\r\"<>|.!?(){},]",
}

#: Patterns, with the pattern that must follow, and the action: `=` and the token to write, or a case of
#: `penn._write_token`; in order of precedence.
RULES: list[tuple[str, str, str]] = [
    (r"c\+\+|c#|f#", "", "keep"),
    ("cannot|'twas", "", "cut3"),
    ("'tis|" + _any(CONTRACTED), "", "cut2"),
    ("{tag}", "", "blank"),
    (r"&(MD|mdash|ndash);|[\u0096\u0097\u2013\u2014\u2015]", "", "=--"),
    ("{amp}", "", "ampersand"),
    ("&(HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);", "", "keep"),
    ("{word}", "{ending}", "soft"),
    (r"[A-Za-z\u00ad]*[A-MO-Za-mo-z]\u00ad*", "{not}", "soft"),
    ("{word}", "", "soft"),
    # Words with an apostrophe: 'n', l'…, Dunkin', 'em, O'…, the '90s.
    (
        "({apos})n({apos})?|[lLdDjJ]({apos})|(Dunkin|somethin|ol)({apos})|({apos})(em|till?|cause)"
        "|[A-HJ-XZn]({tick})[{letter}][{letter}]+|({apos})[2-9]0s"
        "|[{letter}]+[aeiouyAEIOUY]({tick})[aeiouA-Z][{letter}]*"
        r"|cont'd\.?|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l|O({tick})o",
        "",
        "keep",
    ),
    ("y({apos})", "[{letter}]", "keep"),
    (r"https?://[^ \t\n\f\r\"<>|(){}]+{wide}", "", "keep"),
    (
        r"(www\.({www}+\.)+[a-zA-Z]{2,4}|({host}+\.)+(com|net|org|edu))"
        r"(/[^ \t\n\f\r\"<>|()]+{wide})?",
        "",
        "keep",
    ),
    # An e-mail address, perhaps in angle brackets.
    (
        r"(&lt;|<)?[a-zA-Z0-9][^ \t\n\f\r\"<>|()\u00a0{}]*@"
        r"([^ \t\n\f\r\"<>|(){}.\u00a0]+\.)*[^ \t\n\f\r\"<>|(){}.\u00a0]+(&gt;|>)?",
        "",
        "keep",
    ),
    ("@[a-zA-Z_][a-zA-Z_0-9]*|#([{letter}{mark}]|{accented})+", "", "keep"),
    ("{ending}|{not}", "[^A-Za-z]", "close"),
    (r"{d}{1,2}[-/]{d}{1,2}[-/]{d}{2,4}", "", "keep"),
    ("[-+]?({number})", "", "soft"),
    (
        r"[\u207a\u207b\u208a\u208b]?([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+|[\u2080-\u2089]+)",
        "",
        "keep",
    ),
    (r"({d}{1,4}[- \u00a0])?{d}{1,4}{over}{d}{1,4}", "", "blank"),
    (r"[\u00bc-\u00be\u2153-\u215e]", "", "fraction"),
    (
        "-(RRB|LRB|RCB|LCB|RSB|LSB)-|C\\.D\\.s|pro-|anti-|S(&|{amp})(P-500|Ls)"
        "|Cap({apos})n|c({apos})est",
        "",
        "ampersand",
    ),
    (r"{slashed}(\\?/{slashed}){1,2}", "", "keep"),
    (r"[A-Z]*\$|#", "", "keep"),
    (
        r"[\u0080\u00a2-\u00a5\u060b\u0e3f\u20a0\u20a4\u20ac\uffe0\uffe1\uffe5\uffe6]",
        "",
        "currency",
    ),
    (r"({acronym})\.", f"({{gap}})+({_any(OPENERS)}|{{tag}})({{gap}})", "acronym"),
    (_any(NUMBERED) + r"\.", "({gap})?[{digit}]", "keep"),
    (r"(pt[eyEY]|co)\.", "[{space}](ltd|lim)", "keep"),
    ("{short}", "({gap})({gap}|[{upper}]|{tag})", "sentence"),
    # Whatever follows, if it is two characters.
    ("{short}", r"[\u0000-\uffff][\u0000-\uffff]", "keep"),
    (f"({_any(LEADING)}|{{acronym}})\\.", "", "keep"),
    (f"{_any(LEADING)}|{{acronym}}", "[{space}]", "keep"),
    ("{acronym}", "{gap}", "keep"),
    ("({apos})[0-9][0-9]", "{gap}", "keep"),
    (
        f"({{alnum}})+(\\.({{alnum}})+)*\\.{_any(EXTENSIONS)}",
        "{gap}|[.?!,]",
        "keep",
    ),
    (r"{word}\.", "{pause}", "soft"),
    # Telephone numbers: with the prefix in brackets, after a country's code, or in groups with full stops.
    (
        r"(\([0-9]{2,3}\)[ \u00a0]?|(\+\+?)?([0-9]{2,4}[- \u00a0])?[0-9]{2,4}[- \u00a0])"
        r"[0-9]{3,4}[- \u00a0]?[0-9]{3,5}"
        r"|((\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5}",
        "",
        "phone",
    ),
    ('"|&quot;', "[A-Za-z0-9$]", "open"),
    ('"|&quot;', "", "close"),
    ("<|&lt;", "", "=<"),
    (">|&gt;", "", "=>"),
    (r"[<>]?[:;=][-o*']?[()DPdpO\\{@|\[\]]", "[^A-Za-z0-9]", "face"),
    # Faces that look straight ahead, such as =_= and (^.^). The first one is a slip: its second bracket is escaped.
    (
        r"[\^x=~<>]\.\[\^x=[^<]*<>]|[-^x=~<>']_[-^x=~<>']|\([-^x=~<>'][_.]?[-^x=~<>']\)"
        r"|\([\^x=~<>']-[\^x=~<>'`]\)",
        "",
        "face",
    ),
    (r"[()\[\]{}]", "", "bracket"),
    ("-+", "", "hyphens"),
    (r"\.{3,5}|(\.[ \u00a0]){2,4}\.|[\u0085\u2026]", "", "=..."),
    (r"@+|#+|_+|\*+|(\\\*){1,3}|{pause}|[?!]+|[.=/\u07fa]", "", "keep"),
    (r"{hyphenated}\.", "{pause}", "soft"),
    ("{hyphenated}", "", "soft"),
    (r"{joined}\.", "{pause}", "keep"),
    ("{joined}", "", "keep"),
    (r"{ampersands}\.", "{pause}", "ampersand"),
    ("{ampersands}", "", "ampersand"),
    ("'", r"[A-Za-z][^ \t\n\r\u00a0]", "open"),
    (
        r"{ending}|{not}|{apos}|''"
        r"|[`\u2018\u2019\u201a-\u201f\u0091-\u0094\u2039\u203a\u00ab\u00bb]{1,2}",
        "",
        "close",
    ),
    (
        r"<<|>>|[{sign}\u24b6-\u24cf+%&~^|\\\u2044]|[\u00b2\u00b3\u00b9\u207a-\u207f\u208a-\u208e]",
        "",
        "keep",
    ),
    ("[{space}]+|&nbsp;", "", "="),
]
