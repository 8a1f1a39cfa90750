package llm_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/lash-go/lash/workers/llm"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (endless) Close() error { return nil }

// TestEndlessStream expects a stream without an end to fail as malformed.
func TestEndlessStream(t *testing.T) {
	t.Parallel()
	explain := llm.Explain(func(int, []byte) *llm.Error { return &llm.Error{} })
	res, err := explain.Check(nil, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: endless{}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	const most = 1 << 30
	n, err := io.Copy(io.Discard, io.LimitReader(res.Body, most))
	if failure, ok := errors.AsType[*llm.Error](err); !ok || failure.Kind != llm.KindMalformed || n < llm.MaxReplyBytes {
		t.Errorf("got %v after %d bytes, want a malformed reply after at least %d", err, n, llm.MaxReplyBytes)
	}
}
