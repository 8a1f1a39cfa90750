package security

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/schema"
	"github.com/lash-go/lash/workers/builtin/code"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/openai"
	"github.com/lash-go/lash/workers/recording"
)

// depths are the depths of the nested values. A stack overflow would end the process, which no test could report.
func depths() []int {
	if !runtest.Long() {
		return []int{200, 100_000}
	}
	return []int{200, 100_000, 5_000_000}
}

// byteReader is a reader of bytes; refuses says whether nested values are an error there.
type byteReader struct {
	read    func(data []byte) error
	refuses bool
}

// TestDeepMsgpack sends nested values to every reader of msgpack.
func TestDeepMsgpack(t *testing.T) {
	t.Parallel()
	const room = 64  // for a prefix
	var whole []byte // and the nested value behind it, up to 50 MB: a copy for each of so many readers would take seconds
	behind := func(prefix string) []byte {
		data := whole[room-len(prefix):]
		copy(data, prefix)
		return data
	}
	transports := map[string]byteReader{
		"commit": {func(data []byte) error { _, err := events.Decode(data); return err }, true},
		"unknown_field": {func([]byte) error {
			_, err := events.Decode(behind("\x82\xa1f\x01\xa1z"))
			return err
		}, true},
		"request":   {func(data []byte) error { _, err := api.DecodeRequest(data); return err }, true},
		"arguments": {func(data []byte) error { return api.DecodeStrict(data, new(api.CreateArgs)) }, true},
		"unknown_argument": {func([]byte) error {
			return api.DecodeStrict(behind("\x81\xa1z"), new(api.CreateArgs))
		}, true},
		"snapshot": {func(data []byte) error { _, err := projector.Restore(data); return err }, true},
		"archive": {func(data []byte) error {
			_, err := events.ReadArchive(io.MultiReader(strings.NewReader("LASHARC1"), bytes.NewReader(data)), 1<<20)
			return err
		}, true},
	}
	for _, kind := range events.Kinds() {
		transports["payload_"+string(kind)] = byteReader{func([]byte) error {
			_, err := events.Decode(behind("\x82\xa1f\x01\xa1e\x91\x83\xa1k\xd9" + string([]byte{byte(len(kind))}) + string(kind) + "\xa1v\x01\xa1p"))
			return err
		}, true}
	}
	for _, depth := range depths() {
		for form, nested := range map[string][]byte{
			"arrays": harness.Nest(depth, "\x91", "\xc0", ""), "wide_arrays": harness.Nest(depth, "\xdd\x00\x00\x00\x01", "\xc0", ""), "maps": harness.Nest(depth, "\x81\xa1a", "\xc0", ""),
			"maps_of_keys": harness.Nest(depth, "\x81", "\xc0", "\xc0"), "mixed": harness.Nest(depth/2, "\x91\x81\xa1p", "\xc0", ""), "extensions": harness.Nest(depth, "\xc7\x03\x01", "\xc0", ""),
		} {
			whole = slices.Concat(make([]byte, room), nested)
			data := whole[room:]
			for name, transport := range transports {
				if err := transport.read(data); err == nil && transport.refuses {
					t.Errorf("%s of %d %s: got no error", name, depth, form)
				}
			}
		}
	}
}

// jsonReaders has every reader of JSON.
func jsonReaders(t *testing.T) map[string]byteReader {
	t.Helper()
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "any", Schema: &jsonschema.Schema{}}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
	tool, _ := tools.Find("any")
	return map[string]byteReader{
		"tool_arguments": {func(data []byte) error { _, err := tool.Check(data); return err }, true},
		"plugin_options": {func(data []byte) error {
			_, _, err := plugin.DecodeOptions[any](plugin.Options{"p": string(data)}, "p")
			return err
		}, true},
		"schema": {func(data []byte) error { _, err := schema.Parse("schema", data); return err }, true},
		"output": {func(data []byte) error {
			return (&plugin.CompletionRequest{Messages: []events.Message{{}}, Output: plugin.Output{Name: "o", Schema: data}}).Check()
		}, true},
		"code_options": {func(data []byte) error { _, err := code.ParseOptions(data); return err }, true},
		"code_schema": {func(data []byte) error {
			_, err := code.ParseOptions(bytes.Join([][]byte{[]byte(`{"finish_schema":`), data, []byte(`}`)}, nil))
			return err
		}, true},
		"recording":   {func(data []byte) error { _, err := recording.Read("r", bytes.NewReader(data)); return err }, true},
		"shown_raw":   {func(data []byte) error { return json.Unmarshal(eventjson.Raw(data), new(any)) }, false},
		"shown_value": {func(data []byte) error { _, err := eventjson.Value{V: data}.MarshalJSON(); return err }, false},
		"openai":      {func(data []byte) error { return providerReads(t, data, "openai") }, true},
		"anthropic":   {func(data []byte) error { return providerReads(t, data, "anthropic") }, true},
	}
}

// providerReads has a provider read a response with such JSON, as a stream and as an error.
func providerReads(t *testing.T, data []byte, vendor string) error {
	t.Helper()
	var last error
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", map[int]string{http.StatusOK: "text/event-stream", http.StatusBadRequest: "application/json"}[status])
			w.WriteHeader(status)
			if status == http.StatusOK {
				_, _ = io.WriteString(w, "event: message_start\ndata: ")
			}
			_, _ = w.Write(data)
			_, _ = io.WriteString(w, "\n\n")
		}))
		var provider llm.Provider
		var err error
		if vendor == "openai" {
			provider, err = openai.New(openai.Config{APIKey: "k", BaseURL: server.URL})
		} else {
			provider, err = anthropic.New(anthropic.Config{APIKey: "k", BaseURL: server.URL})
		}
		runtest.WantError(t, "provider", err, nil)
		_, last = provider.Complete(t.Context(), llm.Request{Model: "m", Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{harness.Text("hi")}}}}, nil)
		server.Close()
		if last == nil {
			return nil
		}
	}
	return last
}

// TestDeepJSON sends nested JSON to every reader of JSON.
func TestDeepJSON(t *testing.T) {
	t.Parallel()
	transports := jsonReaders(t)
	for _, depth := range depths() {
		for form, data := range map[string][]byte{
			"arrays": harness.Nest(depth, "[", "", "]"), "objects": harness.Nest(depth, `{"a":`, "1", "}"), "open": harness.Nest(depth, "[", "", ""), "open_objects": harness.Nest(depth, `{"not":`, "", ""),
			"schemas": harness.Nest(depth, `{"not":`, "{}", "}"), "lists_of_schemas": harness.Nest(depth/2, `{"allOf":[`, "{}", "]}"), "texts": harness.Nest(depth, `["]",`, "1", "]"),
		} {
			for name, transport := range transports {
				if err := transport.read(data); err == nil && transport.refuses {
					t.Errorf("%s of %d %s: got no error", name, depth, form)
				}
			}
		}
	}
}

// TestDeepRequests sends nested JSON to the services of a session: it is refused, and they continue.
func TestDeepRequests(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	d := b.ServeHTTP(httpapi.Config{})
	id := b.Open(api.CreateRequest{})
	for _, depth := range depths() {
		deep := harness.Nest(depth, "[", "", "]")
		runtest.WantError(t, "protocol options", b.SetProtocolOptions(b.Ctx, id, deep, true), events.ErrTooLarge)
		for _, path := range []string{"/v1/sessions", "/v1/sessions/" + string(id) + "/turns", "/v1/sessions/" + string(id) + "/inputs"} {
			req, err := http.NewRequestWithContext(b.Ctx, http.MethodPost, d.URL+path, bytes.NewReader(harness.Nest(depth, `{"a":`, "1", "}")))
			runtest.WantError(t, "request", err, nil)
			req.Header.Set("Authorization", "Bearer admin"+harness.TokenSecret)
			got, err := d.Client.Do(req)
			runtest.WantError(t, "post", err, nil)
			_ = got.Body.Close()
			if got.StatusCode < 400 || got.StatusCode >= 500 {
				t.Errorf("%s, %d deep: got %s, want a refusal", path, depth, got.Status)
			}
		}
	}
}
