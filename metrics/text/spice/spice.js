// Drives SPICE's own classes (pycocoevalcap's spice-1.0.jar): one request a line, one answer a line.
//
//   "a dog runs"            -> [["dog","run"],["dog"]]       the caption's tuples, as SPICE proposes them
//   [tuples, tuples, ...]   -> [{"scores": {"All": {...}}}]  a candidate's against its references'
//   anything that fails     -> {"error": "what Java said"}
//
// SPICE's own program reads all captions, parses all, scores all and then prints: one bad caption, or
// a kill, loses everything. The calls below are those that it makes (SpiceScorer, SpiceParser).
//
// With the argument "parse" the models are loaded before the first answer, which is "ready".
var Spice = Packages.edu.anu.spice;
var Json = Packages.org.json.simple;
var answers = new java.io.PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
java.lang.System.setOut(java.lang.System.err);

// Read by a thread of its own: where whoever asks is gone (killed, say), a caption that needs minutes
// and gigabytes is not parsed to its end.
var requests = new java.util.concurrent.LinkedBlockingQueue();
new java.lang.Thread(
  new java.lang.Runnable({
    run: function () {
      try {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(java.lang.System["in"], "UTF-8"));
        for (var line; (line = lines.readLine()) !== null; ) requests.put(line);
      } finally {
        java.lang.Runtime.getRuntime().halt(0);
      }
    },
  })
).start();

// No LMDB cache (it has native code for x86-64 alone, and a size that it cannot outgrow), one thread,
// and synonyms.
var parser = new Spice.SpiceParser(null, java.lang.Integer.valueOf(1), java.lang.Boolean.TRUE);

function reach(member) {
  member.setAccessible(true);
  return member;
}

var generate = reach(
  parser.getClass().getDeclaredMethod("generateTuples", java.lang.Class.forName("java.util.List"))
);
var synonyms = reach(parser.getClass().getDeclaredField("synonyms")).get(parser);
var filters = new java.util.HashMap();
["Object", "Relation", "Attribute", "Color", "Cardinality", "Size"].forEach(function (part) {
  var field = java.lang.Class.forName("edu.anu.spice.TupleFilter").getDeclaredField(part.toLowerCase() + "Filter");
  filters.put(part, reach(field).get(null));
});

function parse(caption) {
  return generate.invoke(parser, java.util.Collections.singletonList(caption)).get(caption);
}

function graph(captions) {
  var scene = new Spice.SceneGraph(synonyms, true);
  for (var i = 0; i < captions.size(); i++) {
    var tuples = captions.get(i);
    for (var j = 0; j < tuples.size(); j++) scene.addTuple(tuples.get(j));
  }
  return scene;
}

function score(captions) {
  var stats = new Spice.SpiceStats(filters, java.lang.Boolean.FALSE);
  stats.score("", graph(captions.subList(0, 1)), graph(captions.subList(1, captions.size())), true);
  return stats;
}

function innermost(error) {
  var cause = error.javaException || error;
  while (cause.getCause && cause.getCause()) cause = cause.getCause();
  return String(cause);
}

var json = new Json.parser.JSONParser();
if (arguments[0] == "parse") parse("a");
// What CoreNLP says of each caption would fill the disk.
java.lang.System.setErr(new java.io.PrintStream(java.io.OutputStream.nullOutputStream()));
answers.println('"ready"');
while (true) {
  var line = requests.take();
  var answer;
  try {
    var request = json.parse(line);
    answer = Json.JSONValue.toJSONString(line.startsWith('"') ? parse(request) : score(request));
  } catch (error) {
    answer = JSON.stringify({ error: innermost(error) });
  }
  answers.println(answer);
}
