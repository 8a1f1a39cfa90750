package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/examples/internal/child"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// TestEmbedded answers the approval of a letter both ways. An approved letter is sent, and a refused one is not.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"y": "sent to Ann", "n": "[failed] "} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			p := child.Start(t, []string{"OPENAI_BASE_URL=" + child.WritesToAnn(t)}, "Write", "to", "Ann.")
			p.Await(`Let send_letter run? {"To":"Ann","Text":"Monday."} [y/n]`)
			p.Type(answer)
			output := p.Ended()
			for _, part := range []string{"Write to Ann.", "send_letter", "The tool said: " + want} {
				if !strings.Contains(output, part) {
					t.Errorf("got %s, want %q in it", output, part)
				}
			}
		})
	}
}

// TestEmbeddedWithoutList has an endpoint without a list of models. It is busy at first, and then does not know the
// model. The program shows both errors, and fails.
func TestEmbeddedWithoutList(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && requests.Add(1) == 1 {
			http.Error(w, `{"error":{"message":"busy now"}}`, http.StatusServiceUnavailable)
			return
		}
		http.Error(w, `{"error":{"message":"there is no model m"}}`, http.StatusNotFound)
	}))
	t.Cleanup(model.Close)
	p := child.Start(t, []string{"OPENAI_BASE_URL=" + model.URL}, "Write", "to", "Ann.")
	output := p.Failed(1)
	for _, part := range []string{"the model call is tried again: ", "busy now", "Write to Ann.", "the turn ended without an answer: provider_error: ", "there is no model m", "MODEL say which model is asked"} {
		if !strings.Contains(output, part) {
			t.Errorf("got %s, want %q in it", output, part)
		}
	}
}

// TestEmbeddedUsage leaves the question out, and then the model: no model is asked.
func TestEmbeddedUsage(t *testing.T) {
	t.Parallel()
	for _, p := range []*child.Program{
		child.Start(t, []string{"OPENAI_BASE_URL=http://127.0.0.1:1"}),
		child.Start(t, []string{"OPENAI_BASE_URL=http://127.0.0.1:1", "MODEL="}, "Write", "to", "Ann."),
	} {
		if output := p.Failed(2); !strings.HasPrefix(output, "usage: OPENAI_API_KEY=... MODEL=NAME ") {
			t.Errorf("got %q, want the usage", output)
		}
	}
}
