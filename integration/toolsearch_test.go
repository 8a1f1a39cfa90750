package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/toolsearch"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// calling scripts a reply that calls a tool.
func calling(id events.CallID, tool, args string) llmtest.Reply {
	return llmtest.Reply{Stop: events.StopToolUse, Chunks: []llmtest.Chunk{{Kind: events.PartToolCall, Call: id, Tool: tool, Text: args}}}
}

// mailer is a plugin whose tool a model has to look for.
func mailer(r *plugin.Registrar) {
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

// TestToolSearch has a model call a tool that it was not told of, look for it, and call
// it then: with what the tool says of itself, and without what the search did not find.
func TestToolSearch(t *testing.T) {
	t.Parallel()
	b, e := setupEndpoint(t, []llmtest.Reply{
		calling("c1", "send_mail", `{"To":"bob"}`), calling("c2", "search_tools", `{"query":"LETTER secret"}`), calling("c3", "send_mail", `{"To":"bob"}`), llmtest.Text("sent"),
	}, declares("mailer", mailer), toolsearch.Factory())
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("write to bob"))
	sent := e.sent()
	equal(t, "requests", len(sent), 4)
	for i, want := range [][]string{{"search_tools"}, {"search_tools"}, {"search_tools", "send_mail"}, {"search_tools", "send_mail"}} {
		got := []string{}
		for name := range offered(sent[i]) {
			got = append(got, name)
		}
		slices.Sort(got)
		equalLists(t, "tools offered", got, want)
	}
	equal(t, "description", offered(sent[2])["send_mail"], "Sends a mail.\n\nReturns JSON of the schema "+
		`{"type":"object","properties":{"sent":{"type":"boolean"}}}`+"\n\nExamples of arguments:\n"+`{"To":"ann"}`)
	results := toldAs(sent[3], "tool")
	if len(results) != 3 || !strings.Contains(results[0], "not available") || !strings.Contains(results[1], `"name":"send_mail","namespace":"office"`) ||
		strings.Contains(results[1], "send_secret") || results[2] != `{"sent":true}` {
		t.Errorf("results: got %q, want a refusal, what was found, and the tool's own", results)
	}
	levels := map[string]events.Availability{}
	for _, tool := range b.state(id).Catalog.Tools {
		levels[tool.Name] = tool.Effective()
	}
	alike(t, "levels", levels, map[string]events.Availability{
		"send_mail": events.AvailCallable, "search_tools": events.AvailShowcased, "send_secret": events.AvailOff, "print": events.AvailSearchable,
	})
	b.verified(id)
}

// TestToolSearchOfHost has a model look for a tool that a host set to searchable: it is found, and stays that.
func TestToolSearchOfHost(t *testing.T) {
	t.Parallel()
	b, e := setupEndpoint(t, []llmtest.Reply{llmtest.Text("hi"), calling("c1", "search_tools", `{"query":"mail"}`), llmtest.Text("no")}, declares("mailer", mailer), toolsearch.Factory())
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hi"))
	_, err := b.SetToolsAvailability(b.ctx, id, []string{"send_mail"}, events.Overridden(events.AvailSearchable))
	must(t, "set", err, nil)
	b.run(id, "t2", text("write"))
	sent := e.sent()
	if results := toldAs(sent[2], "tool"); !strings.Contains(results[0], `"callable":false`) {
		t.Errorf("result: got %q, want it not callable", results)
	}
	equal(t, "tools offered", len(offered(sent[2])), 1)
}

// TestToolManifest reads what a tool says of itself in the history and over HTTP, where it comes back as it went.
func TestToolManifest(t *testing.T) {
	t.Parallel()
	b, _ := setupEndpoint(t, []llmtest.Reply{llmtest.Text("ok")}, declares("mailer", mailer))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hi"))
	recorded, _ := b.state(id).Catalog.Tool("send_mail")
	equal(t, "recorded", recorded.Namespace+" "+strings.Join(recorded.Aliases, " ")+" "+string(recorded.Examples[0]), `office letter post {"To":"ann"}`)
	d := b.door(httpapi.Config{})
	got := d.ask("admin", http.MethodGet, "/v1/sessions/"+string(id)+"/tools", "")
	var tools httpapi.Tools
	must(t, "tools", json.Unmarshal(got.body, &tools), nil)
	i := slices.IndexFunc(tools.Tools, func(t httpapi.Tool) bool { return t.Name == "send_mail" })
	equal(t, "over HTTP", tools.Tools[i].Namespace+" "+string(tools.Tools[i].Output), "office "+string(recorded.Output))
	put := d.ask("admin", http.MethodPut, "/v1/sessions/"+string(id)+"/tools", string(got.body))
	equal(t, "put", put.status, http.StatusOK)
	again, _ := b.state(id).Catalog.Tool("send_mail")
	alike(t, "after it came back", again, recorded)
	listed := d.ask("admin", http.MethodGet, "/v1/sessions/"+string(id)+"/tools/catalog", "")
	for _, want := range []string{`"namespace":"office"`, `"aliases":["letter","post"]`, `"output_schema":{`, `"examples":[{"To":"ann"}]`} {
		if !strings.Contains(string(listed.body), want) {
			t.Errorf("catalog: got %s, want %s", listed.body, want)
		}
	}
}
