package mcpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
)

// maxAnswer limits an answer of the API that is read.
const maxAnswer = 16 << 20

// copiesOfAnswer is how often an answer is in memory: as its bytes, its values, the result of the tool and the message with it.
const copiesOfAnswer = 4

// client performs requests of the API.
type client struct {
	base string // URL of the API, without /v1
	http *http.Client
}

// perform performs an operation. The fields of in are its arguments, by their names in JSON: in the path where that has the name, else in
// the query of a read, and in the body of a change. A change without an id of what it makes has a key, so that no retry below this
// client performs it twice. Errors: what the API says, as a text for a model.
func (c *client) perform(ctx context.Context, row *operation.Row, in any) (json.RawMessage, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(data, &args); err != nil {
		return nil, err
	}
	method, path := row.HTTP()
	query := make(url.Values)
	for name, value := range args {
		text := string(value)
		if err := json.Unmarshal(value, &text); err != nil {
			text = string(value) // a number
		}
		if full := strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text)); full != path {
			path = full
			delete(args, name)
		} else if method == http.MethodGet {
			query.Set(name, text)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		body, _ := json.Marshal(args) // which is JSON
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		if args["id"] == nil {
			r.Header.Set("Idempotency-Key", "mcp-"+rand.Text())
		}
	}
	return c.answer(ctx, r)
}

// answer sends a request, and reads its answer.
func (c *client) answer(ctx context.Context, r *http.Request) (json.RawMessage, error) {
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the node does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the node's answer ended: %w", err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes, the limit of this server: %s %s of the HTTP API has all of it", maxAnswer, r.Method, r.URL.RequestURI())
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, refusal(answer.StatusCode, text)
	}
	return text, memory.Take(ctx, copiesOfAnswer*int64(len(text)))
}

// refusal is a problem of the API.
func refusal(status int, text []byte) error {
	var problem struct{ Code, Detail, Title string }
	if json.Unmarshal(text, &problem) != nil || problem.Code == "" {
		return fmt.Errorf("status %d", status)
	}
	return fmt.Errorf("%s: %s", problem.Code, strings.TrimSpace(problem.Detail))
}
