package guide

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

// model is the endpoint that the guides' reader has: it answers as the blocks show.
func model(t *testing.T) (env []string) {
	t.Helper()
	var killed atomic.Bool // the node that asks what comes after the weather
	url := llmtest.Endpoint(t, func(r *http.Request, req llm.Request) llmtest.Reply {
		if results := llmtest.Results(req); len(results) > 0 {
			if strings.HasPrefix(results[0].Text, "rain") && killed.CompareAndSwap(false, true) {
				<-r.Context().Done()
			}
			return llmtest.Text("The tool said: " + results[len(results)-1].Text)
		}
		last := req.Messages[len(req.Messages)-1].Parts
		if len(last) == 0 {
			return llmtest.Text("")
		}
		switch last[0].Text {
		case "Write to Ann that I come on Monday.":
			return llmtest.Calls(events.Part{Call: "c", Tool: "send_letter", Args: []byte(`{"To":"Ann","Text":"I come on Monday."}`)})
		case "What is it like in Oslo?":
			return llmtest.Calls(events.Part{Call: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`)})
		case "Say hello.":
			return llmtest.Text("Hello.")
		case "Which city?":
			return llmtest.Text(`{"city":"Oslo"}`)
		}
		return llmtest.Text("2 + 2 is 4.")
	})
	return []string{"OPENAI_BASE_URL=" + url}
}

// TestReadme does what the README says, in a folder of its own.
func TestReadme(t *testing.T) {
	t.Parallel()
	follow(t, root+"/README.md", t.TempDir(), model(t), nil)
}
