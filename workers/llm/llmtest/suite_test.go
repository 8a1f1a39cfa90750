package llmtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// scripted is a provider without a wire. The suite must pass it without a flaw, and fail it with one.
type scripted struct {
	replies []llmtest.Reply
	calls   atomic.Int64
	flaw    string
}

func (*scripted) ID() string { return "scripted" }

func (s *scripted) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if s.flaw == "deaf" {
		ctx = context.WithoutCancel(ctx)
	}
	n := min(int(s.calls.Add(1)), len(s.replies)) - 1
	if s.flaw == "stuck" {
		n = 0
	}
	r := s.replies[n]
	if ctx.Err() != nil {
		return llm.Response{}, ctx.Err()
	}
	if r.Refusal != nil {
		return llm.Response{}, s.refusal(r.Refusal)
	}
	for _, c := range r.Chunks {
		if sink != nil && c.Kind != events.PartToolCall && c.Text != "" && (s.flaw != "silent" || c.Kind == events.PartText) {
			sink(llm.Delta{Kind: c.Kind, Text: c.Text})
		}
	}
	res := llm.Response{Parts: r.Parts(), Stop: r.Stop, Usage: r.Usage}
	if err := s.fault(ctx, r.Fault); err != nil {
		if s.flaw == "half" {
			return res, err
		}
		return llm.Response{}, err
	}
	return s.spoil(res), nil
}

func (s *scripted) refusal(e *llm.Error) error {
	out := *e
	switch s.flaw {
	case "eager":
		out.RetryAfter = 0
	case "vague":
		return errors.New(e.Message)
	case "optimist":
		out.Kind = llm.KindServer
	}
	return &out
}

func (s *scripted) fault(ctx context.Context, f llmtest.Fault) error {
	kind := map[llmtest.Fault]llm.ErrorKind{
		llmtest.FaultCut: llm.KindTransport, llmtest.FaultShort: llm.KindUnfinished,
		llmtest.FaultGarbage: llm.KindMalformed, llmtest.FaultError: llm.KindServer,
	}[f]
	switch {
	case s.flaw == "blind":
		return nil
	case f == llmtest.FaultHang && s.flaw == "own_words":
		<-ctx.Done()
		return &llm.Error{Kind: llm.KindTransport, Message: "timed out"}
	case f == llmtest.FaultHang && s.flaw == "deaf":
		return &llm.Error{Kind: llm.KindTransport, Message: "gave up"}
	case f == llmtest.FaultHang:
		<-ctx.Done()
		return ctx.Err()
	case kind != "":
		return &llm.Error{Kind: kind, Message: "scripted"}
	}
	return nil
}

func (s *scripted) spoil(res llm.Response) llm.Response {
	switch s.flaw {
	case "forgetful":
		if len(res.Parts) > 0 {
			res.Parts = res.Parts[1:]
		}
	case "spendthrift":
		res.Usage.Output++
	case "endless":
		res.Stop = events.StopEnd
	case "sloppy":
		for i := range res.Parts {
			res.Parts[i].Args = []byte(strings.TrimSuffix(string(res.Parts[i].Args), "}"))
		}
	case "anonymous":
		for i := range res.Parts {
			res.Parts[i].Call = ""
		}
	}
	return res
}

func open(flaw string) llmtest.OpenFunc {
	return func(_ *testing.T, replies ...llmtest.Reply) llm.Provider {
		return &scripted{replies: replies, flaw: flaw}
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.TestProvider(t, open(""))
}

const flawVariable = "LLMTEST_FLAW"

// TestChildFlawed runs in another process, for TestSuiteFailsFlawedProviders.
func TestChildFlawed(t *testing.T) { llmtest.TestProvider(t, open(os.Getenv(flawVariable))) }

// TestSuiteFailsFlawedProviders expects the suite to fail flawed providers.
func TestSuiteFailsFlawedProviders(t *testing.T) {
	t.Parallel()
	for _, flaw := range []string{
		"deaf", "stuck", "silent", "half", "eager", "vague", "optimist", "blind", "own_words",
		"forgetful", "spendthrift", "endless", "sloppy", "anonymous",
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			out, err := runtest.Child(t.Context(), "TestChildFlawed", flawVariable+"="+flaw).CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "--- FAIL: TestChildFlawed") {
				t.Errorf("a provider with this flaw passes (%v):\n%s", err, out)
			}
		})
	}
}
