package system

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/toolsearch"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// mailTools is a plugin whose tool a model has to search for.
func mailTools(r *plugin.Registrar) {
	plugin.AddTool(r, plugin.Tool{
		Name: "send_mail", Description: "Sends a mail.", Level: events.AvailSearchable, Namespace: "office", Aliases: []string{"letter", "post"},
		Output:   &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"sent": {Type: "boolean"}}},
		Examples: []json.RawMessage{json.RawMessage(`{"To":"ann"}`)},
	}, func(context.Context, plugin.Call, struct{ To string }) (map[string]bool, error) {
		return map[string]bool{"sent": true}, nil
	})
	for name, level := range map[string]events.Availability{"send_secret": events.AvailOff, "print": events.AvailSearchable} {
		plugin.AddTool(r, plugin.Tool{Name: name, Description: "Prints.", Level: level}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
	}
}

// offered are the tools that a request offers, with their descriptions.
func offered(body object) map[string]string {
	list := make(map[string]string)
	tools, _ := body["tools"].([]any)
	for _, t := range tools {
		f := t.(object)["function"].(object)
		list[f["name"].(string)], _ = f["description"].(string)
	}
	return list
}

// TestSmokeToolSearch has a model call a tool that it was not offered, search for it, and call it then: with the tool's
// description, and without the tools that the search did not find.
func TestSmokeToolSearch(t *testing.T) {
	t.Parallel()
	b, e := startEndpoint(t, []llmtest.Reply{
		callReply("c1", "send_mail", `{"To":"bob"}`), callReply("c2", "search_tools", `{"query":"LETTER secret"}`), callReply("c3", "send_mail", `{"To":"bob"}`), llmtest.Text("sent"),
	}, harness.PluginOf("mailer", mailTools), toolsearch.Factory())
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("write to bob"))
	sent := e.sent()
	runtest.Equal(t, "requests", len(sent), 4)
	for i, want := range [][]string{{"search_tools"}, {"search_tools"}, {"search_tools", "send_mail"}, {"search_tools", "send_mail"}} {
		got := []string{}
		for name := range offered(sent[i]) {
			got = append(got, name)
		}
		slices.Sort(got)
		runtest.EqualLists(t, "tools offered", got, want)
	}
	runtest.Equal(t, "description", offered(sent[2])["send_mail"], "Sends a mail.\n\nReturns JSON of the schema "+
		`{"type":"object","properties":{"sent":{"type":"boolean"}}}`+"\n\nExamples of arguments:\n"+`{"To":"ann"}`)
	results := textsOf(sent[3], "tool")
	if len(results) != 3 || !strings.Contains(results[0], "not available") || !strings.Contains(results[1], `"name":"send_mail","namespace":"office"`) ||
		strings.Contains(results[1], "send_secret") || results[2] != `{"sent":true}` {
		t.Errorf("results: got %q, want a refusal, what was found, and the tool's own", results)
	}
	levels := map[string]events.Availability{}
	for _, tool := range b.StateOf(id).Catalog.Tools {
		levels[tool.Name] = tool.Effective()
	}
	runtest.DeepEqual(t, "levels", levels, map[string]events.Availability{
		"send_mail": events.AvailCallable, "search_tools": events.AvailShowcased, "send_secret": events.AvailOff, "print": events.AvailSearchable,
	})
	b.Verify(id)
}

// TestToolSearchOfHost has a model search for a tool that a host set to searchable: the search finds it, and it
// stays searchable.
func TestToolSearchOfHost(t *testing.T) {
	t.Parallel()
	b, e := startEndpoint(t, []llmtest.Reply{llmtest.Text("hi"), callReply("c1", "search_tools", `{"query":"mail"}`), llmtest.Text("no")}, harness.PluginOf("mailer", mailTools), toolsearch.Factory())
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hi"))
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"send_mail"}, events.Overridden(events.AvailSearchable))
	runtest.WantError(t, "set", err, nil)
	b.RunTurn(id, "t2", harness.Text("write"))
	sent := e.sent()
	if results := textsOf(sent[2], "tool"); !strings.Contains(results[0], `"callable":false`) {
		t.Errorf("result: got %q, want it not callable", results)
	}
	runtest.Equal(t, "tools offered", len(offered(sent[2])), 1)
}

// TestToolManifest reads a tool's manifest in the history and over HTTP: they are the same as declared.
func TestToolManifest(t *testing.T) {
	t.Parallel()
	b, _ := startEndpoint(t, []llmtest.Reply{llmtest.Text("ok")}, harness.PluginOf("mailer", mailTools))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hi"))
	recorded, _ := b.StateOf(id).Catalog.Tool("send_mail")
	runtest.Equal(t, "recorded", recorded.Namespace+" "+strings.Join(recorded.Aliases, " ")+" "+string(b.Contract(recorded).Examples[0]), `office letter post {"To":"ann"}`)
	d := b.ServeHTTP(httpapi.Config{})
	got := d.Send("admin", http.MethodGet, "/v1/sessions/"+string(id)+"/tools", "")
	var tools httpbody.Tools
	runtest.WantError(t, "tools", json.Unmarshal(got.Body, &tools), nil)
	i := slices.IndexFunc(tools.Tools, func(t httpbody.Tool) bool { return t.Name == "send_mail" })
	runtest.Equal(t, "over HTTP", tools.Tools[i].Namespace+" "+string(tools.Tools[i].Output), "office "+string(b.Contract(recorded).Output))
	put := d.Send("admin", http.MethodPut, "/v1/sessions/"+string(id)+"/tools", string(got.Body))
	runtest.Equal(t, "put", put.Status, http.StatusOK)
	again, _ := b.StateOf(id).Catalog.Tool("send_mail")
	runtest.DeepEqual(t, "after it came back", again, recorded)
	listed := d.Send("admin", http.MethodGet, "/v1/sessions/"+string(id)+"/tools/catalog", "")
	for _, want := range []string{`"namespace":"office"`, `"aliases":["letter","post"]`, `"output_schema":{`, `"examples":[{"To":"ann"}]`} {
		if !strings.Contains(string(listed.Body), want) {
			t.Errorf("catalog: got %s, want %s", listed.Body, want)
		}
	}
}

// TestContractsAreStoredOnce has forty tools of 2 KiB each whose levels change a hundred times: the history has at most a tenth of the bytes
// that it had with each tool's contract in each change, and the stored bodies are counted. Another node without the tools lists them whole.
func TestContractsAreStoredOnce(t *testing.T) {
	t.Parallel()
	const tools, changes, size = 40, 100, 2 << 10
	b := harness.StartIdle(t)
	b.StartNode(harness.PluginOf("many", func(r *plugin.Registrar) {
		for i := range tools {
			plugin.AddTool(r, plugin.Tool{
				Name: fmt.Sprintf("tool_%02d", i), Description: "Does something.",
				Schema: &jsonschema.Schema{Type: "object", Description: strings.Repeat(fmt.Sprintf("%02d", i), size/2)},
			}, func(context.Context, plugin.Call, map[string]any) (string, error) { return "", nil })
		}
	}))
	id := b.Open(api.CreateRequest{})
	for i := range changes {
		_, err := b.SetToolsAvailability(b.Ctx, id, []string{"tool_00"}, []events.Override{"off", ""}[i%2])
		runtest.WantError(t, "change", err, nil)
	}
	whole, now, bodies := 0, 0, make(map[events.BlobRef]bool)
	for _, ev := range b.History(id) {
		data, err := events.EncodePayload(ev.Payload)
		runtest.WantError(t, "encode", err, nil)
		whole, now = whole+len(data), now+len(data)
		for _, ref := range events.Refs(ev.Payload) {
			if whole += int(ref.Size) - len(ref.Digest); !bodies[ref] {
				now += int(ref.Size)
			}
			bodies[ref] = true
		}
	}
	runtest.Equal(t, "contracts", len(bodies), tools)
	if now*10 > whole {
		t.Errorf("got %d bytes, want at most a tenth of the %d with contracts in each change", now, whole)
	}
	list, err := b.OtherHost().ToolState(b.Ctx, id)
	runtest.WantError(t, "list", err, nil)
	for i := range list.Tools {
		if !strings.Contains(string(list.Tools[i].Look().Schema), strings.Repeat(fmt.Sprintf("%02d", i), size/2)) {
			t.Errorf("%s: got the schema %.50s, want that of its plugin", list.Tools[i].Name, list.Tools[i].Look().Schema)
		}
	}
}

// TestLostContract has the contract of a tool lost that the session's node does not have: turns go on, and the tool is listed without it.
func TestLostContract(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	first, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.PluginOf("mailer", mailTools))
	id := b.Open(api.CreateRequest{})
	b.Host = first.Host()
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"send_mail"}, events.Overridden(events.AvailCallable))
	runtest.WantError(t, "set", err, nil)
	recorded, _ := b.StateOf(id).Catalog.Tool("send_mail")
	kill()
	stored, err := b.Bus.Blobs(b.Ctx)
	runtest.WantError(t, "bodies", err, nil)
	for _, body := range stored {
		if body.Digest == recorded.Contract.Digest {
			runtest.WantError(t, "remove", b.Bus.DropBlob(b.Ctx, body), nil)
		}
	}
	b.StartNode()
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("hi")).End, events.EndFinished)
	list, err := b.ToolState(b.Ctx, id)
	runtest.WantError(t, "list", err, nil)
	for i := range list.Tools {
		if tool := &list.Tools[i]; tool.Name == "send_mail" {
			runtest.Equal(t, "lacks its contract", tool.LacksContract(), true)
			return
		}
	}
	t.Errorf("got %d tools, want the one that a host set among them", len(list.Tools))
}
