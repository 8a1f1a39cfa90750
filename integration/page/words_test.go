package page

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/httpapi"
)

// words are names that every object of the language has. __proto__ is one of ids, too.
var words = []string{"constructor", "toString", "hasOwnProperty", "__proto__", "valueOf"}

// TestWordsOfTheLanguage names sessions, turns, messages, tools, outcomes and forms by words of the language, and opens permalinks to
// each: the page shows them as any other name.
func TestWordsOfTheLanguage(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	for i, word := range words {
		id, turn := events.SessionID(word), events.TurnID(words[(i+1)%len(words)])
		b.ByHand(id)
		w := &writer{b: b, id: id}
		call := harness.Call(events.CallID(word), word, `{"constructor":{"prototype":1},"__proto__":[]}`)
		w.commit(events.Of("", &events.SessionOpened{Config: events.Config{Model: word, Provider: word}, Labels: map[string]string{word: word}}))
		w.commit(events.Of("", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: word}}}))
		w.commit(
			events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text("question " + word)}}}),
			events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: events.WorkerID(word), Message: events.MessageID(word)}))
		w.commit(events.Of(turn, &events.ModelReplied{Parts: []events.Part{harness.Text("answer " + word), call}, Stop: events.StopToolUse, Model: word, Provider: word, Usage: events.Usage{Input: 1}}))
		w.commit(events.Of(turn, &events.ToolReturned{Results: []events.ToolResult{{Text: "result " + word}}}))
		w.commit(events.Event{Kind: events.Kind(strings.ToLower(word) + ".named"), V: 1, Raw: []byte{0x80}})
	}
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/"+words[0], "reader")
	for _, word := range words {
		p.run(navigate(p, "#/s/"+word+"/"+word))
		p.await(word, `document.querySelector("h1").textContent === `+quoted(word)+` && document.querySelector("#tab-talk[aria-selected=true]")`)
		p.awaitText(".message.user", "question "+word)
		p.awaitText(".message.assistant", "answer "+word)
		p.await("the model of "+word, `document.querySelector(".message.assistant").innerText.includes(`+quoted(word)+`)`)
		for i, name := range []string{"time", "graph", "events", "compare", "talk"} {
			p.press(string(rune('1' + (i+1)%5)))
			p.await(name, `document.querySelector("#tab-`+name+`[aria-selected=true]")`)
		}
		p.run(navigate(p, "#/s/"+word+"/talk/3/"+word))
		p.awaitText(".message.user", "question "+word)
	}
	p.run(navigate(p, "#/"+words[0]))
	p.awaitText(".nothing", "Choose a session")
}
