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

// do performs a request. body is JSON; nil: none. One without an id of what it makes has a key, so that no retry below
// this client performs it twice. Errors: what the API says, as a text for a model.
func (c *client) do(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	var data io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		data = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/v1"+path, data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if _, named := body.(identified); body != nil && !named {
		r.Header.Set("Idempotency-Key", "mcp-"+rand.Text())
	}
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
		return nil, fmt.Errorf("the answer has more than %d bytes, the limit of this server: %s /v1%s of the HTTP API has all of it", maxAnswer, method, path)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, refusal(answer.StatusCode, text)
	}
	return text, memory.Take(ctx, copiesOfAnswer*int64(len(text)))
}

// identified is the body of a request with the id of what it makes.
type identified interface{ identified() }

// refusal is a problem of the API.
func refusal(status int, text []byte) error {
	var problem struct{ Code, Detail, Title string }
	if json.Unmarshal(text, &problem) != nil || problem.Code == "" {
		return fmt.Errorf("status %d", status)
	}
	return fmt.Errorf("%s: %s", problem.Code, strings.TrimSpace(problem.Detail))
}

// session is the path of a session.
func session(id string, more ...string) string {
	path := "/sessions/" + url.PathEscape(id)
	for _, part := range more {
		path += "/" + url.PathEscape(part)
	}
	return path
}
