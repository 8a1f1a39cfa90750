package llm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Lister is a [Provider] that can list its models. Its errors are those of Complete. An endpoint without a list is an
// error of [KindRequest].
type Lister interface {
	Models(ctx context.Context) ([]string, error)
}

// maxModels limits the bytes of a list of models.
const maxModels = 4 << 20

// Models reads a list of models, which has the same form in OpenAI's and Anthropic's APIs. header authenticates the
// request. No error contains secret.
func Models(ctx context.Context, client *http.Client, base, path, query string, header http.Header, explain Explain, secret string) ([]string, error) {
	names, err := models(ctx, client, base, path, query, header, explain)
	if err != nil {
		return nil, CallError(ctx, err, secret)
	}
	return names, nil
}

func models(ctx context.Context, client *http.Client, base, path, query string, header http.Header, explain Explain) ([]string, error) {
	at, err := url.JoinPath(base, path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header, req.URL.RawQuery = header, query
	res, err := Client(client).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxModels))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		e := explain(res.StatusCode, body[:min(len(body), maxFailure)])
		e.Status = res.StatusCode
		return nil, e
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) == 0 {
		return nil, &Error{Kind: KindRequest, Message: "the endpoint gives no list of models", Err: errors.Join(err)}
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = Clip(m.ID)
	}
	return names, nil
}
