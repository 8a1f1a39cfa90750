package servicetest

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

var lifeCases = []testCase{
	{"create", func(b *bench) {
		id, err := b.Create(b.ctx, api.CreateRequest{
			ID: "s1", Config: events.Config{Model: "m"}, Labels: map[string]string{"k": "v"}, Nodes: says("a", "b"),
		})
		b.must("create", err, nil)
		equal(b, "id", id, "s1")
		s := b.state(id)
		equal(b, "model", s.Config.Model, "m")
		equal(b, "labels", s.Labels, map[string]string{"k": "v"})
		equal(b, "messages", b.texts(id), []string{"a", "b"})
	}},
	{"create_large", func(b *bench) { // more nodes than one commit takes
		var texts []string
		for i := range 300 {
			texts = append(texts, fmt.Sprintf("n%d", i))
		}
		equal(b, "messages", b.texts(b.open(texts...)), texts)
	}},
	{"create_taken", func(b *bench) {
		_, err := b.Create(b.ctx, api.CreateRequest{ID: "s1"})
		b.must("create", err, nil)
		_, err = b.Create(b.ctx, api.CreateRequest{ID: "s1"})
		b.must("create again", err, api.ErrExists)
	}},
	{"create_invalid", func(b *bench) {
		_, err := b.Create(b.ctx, api.CreateRequest{ID: "a.b"})
		b.must("id", err, events.ErrInvalidID)
		equal(b, "field", as[*events.FieldError](b, "id", err).Field, "session")
		_, err = b.Create(b.ctx, api.CreateRequest{Start: "else"})
		b.must("start", err, events.ErrInvalid)
		equal(b, "field", as[*events.FieldError](b, "start", err).Field, "start")
	}},
	{"create_from_snapshot", func(b *bench) {
		base := b.state(b.open("a", "b"))
		id, err := b.Create(b.ctx, api.CreateRequest{Start: api.StartSnapshot, Snapshot: base})
		b.must("create", err, nil)
		equal(b, "messages", b.texts(id), []string{"a", "b"})
	}},
	{"create_from_large_snapshot", func(b *bench) { // larger than a request
		var nodes []api.AppendNode
		for range 90 {
			nodes = append(nodes, api.AppendNode{Message: &events.Message{Role: events.RoleUser, Parts: text(strings.Repeat("x", 8000))}})
		}
		of, err := b.Create(b.ctx, api.CreateRequest{Nodes: nodes})
		b.must("create", err, nil)
		for range 2 {
			_, err = b.AppendNodes(b.ctx, of, api.AppendNodesRequest{Nodes: nodes})
			b.must("append", err, nil)
		}
		id, err := b.Create(b.ctx, api.CreateRequest{Start: api.StartSnapshot, Snapshot: b.state(of)})
		b.must("create", err, nil)
		equal(b, "messages", b.texts(id), b.texts(of))
		equal(b, "number of messages", len(b.texts(id)), 270)
	}},
	{"create_with_overlay", func(b *bench) {
		over := api.Overlay{
			Tools:         []api.OverlayTool{{Source: "shelf", Name: "lent"}},
			Contributions: []events.Contribution{{Slot: events.SlotGuidance, Title: "t", Priority: 2, Tools: []string{"lent"}, Minimum: "callable", Content: "Read."}},
			WithoutBase:   true,
		}
		id, err := b.Create(b.ctx, api.CreateRequest{Overlay: over})
		b.must("create", err, nil)
		first, err := b.StateAt(b.ctx, id, 1)
		b.must("state", err, nil)
		equal(b, "contributions of the first commit", first.Overlay.Contributions, over.Contributions)
		equal(b, "without the session's own tools", first.Overlay.WithoutBase, true)
		if list := first.Overlay.Tools; len(list) != 1 || list[0].Name != "lent" || list[0].Source != "shelf" {
			b.t.Fatalf("tools of the first commit: got %+v, want lent", list)
		}
		r, err := b.Run(b.ctx, id, asks("t1", "call lent"))
		b.must("run", err, nil)
		equal(b, "text of the first turn", r.Text, "you said a book")
		list, err := b.ToolCatalog(b.ctx, id)
		b.must("catalog", err, nil)
		equal(b, "tools", len(list), 1)

		fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
		b.must("fork", err, nil)
		equal(b, "tools of a fork", len(b.state(fork).Overlay.Tools), 1)
		fork, err = b.Fork(b.ctx, id, api.CreateRequest{Overlay: api.Overlay{Contributions: over.Contributions}})
		b.must("fork", err, nil)
		equal(b, "tools of a fork with another overlay", len(b.state(fork).Overlay.Tools), 0)
		equal(b, "contributions of a fork with another overlay", b.state(fork).Overlay.Contributions, over.Contributions)
		only, err := b.Create(b.ctx, api.CreateRequest{Access: events.ToolAccess{Tools: []string{"gated"}}})
		b.must("create", err, nil)
		child, err := b.Create(b.ctx, api.CreateRequest{Parent: only, Overlay: over})
		b.must("child of a session with one tool", err, nil)
		list, err = b.ToolCatalog(b.ctx, child)
		b.must("catalog", err, nil)
		equal(b, "tools that neither its parent has", len(list), 0)
		for field, wrong := range map[string]api.Overlay{
			"overlay.tools[0]": {Tools: []api.OverlayTool{{Source: "shelf", Name: "gated"}}},
			"overlay.tools[1]": {Tools: []api.OverlayTool{over.Tools[0], over.Tools[0]}},
			"overlay":          {Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: strings.Repeat("x", 128<<10)}}},
		} {
			_, err := b.Create(b.ctx, api.CreateRequest{ID: "s9", Overlay: wrong})
			equal(b, "field", as[*events.FieldError](b, field, err).Field, field)
		}
		_, err = b.State(b.ctx, "s9")
		b.must("state of none", err, events.ErrNoSession)
	}},
	{"fork", func(b *bench) {
		from := b.open("a", "b")
		id, err := b.Fork(b.ctx, from, api.CreateRequest{Nodes: says("c")})
		b.must("fork", err, nil)
		equal(b, "messages", b.texts(id), []string{"a", "b", "c"})
		equal(b, "messages of the base", b.texts(from), []string{"a", "b"})
	}},
	{"fork_unknown", func(b *bench) {
		_, err := b.Fork(b.ctx, "nobody", api.CreateRequest{})
		b.must("fork", err, events.ErrNoSession)
	}},
	{"configure", func(b *bench) {
		id := b.open()
		err := b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m2"; return c }})
		b.must("configure", err, nil)
		err = b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.MaxIterations = 7; return c }})
		b.must("configure", err, nil)
		c := b.state(id).Config
		equal(b, "model", c.Model, "m2")
		equal(b, "iterations", c.MaxIterations, 7)
	}},
	{"configure_key", func(b *bench) {
		id := b.open()
		more := api.ConfigureRequest{IdempotencyKey: "k", Change: func(c events.Config) events.Config { c.MaxIterations++; return c }}
		b.must("configure", b.Configure(b.ctx, id, more), nil)
		b.must("configure", b.Configure(b.ctx, id, more), nil)
		equal(b, "iterations", b.state(id).Config.MaxIterations, 1)
		other := api.ConfigureRequest{Change: func(c events.Config) events.Config { c.MaxIterations = 7; return c }}
		b.must("configure else", b.Configure(b.ctx, id, other), nil)
		b.must("configure again", b.Configure(b.ctx, id, more), nil)
		other.IdempotencyKey = "k"
		b.must("configure else with the key", b.Configure(b.ctx, id, other), api.ErrDifferent)
		_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("a"), IdempotencyKey: "k"})
		b.must("append with the key", err, api.ErrDifferent)
		equal(b, "iterations", b.state(id).Config.MaxIterations, 7)
	}},
	{"configure_invalid", func(b *bench) {
		err := b.Configure(b.ctx, b.open(), api.ConfigureRequest{Change: func(c events.Config) events.Config { c.MaxIterations = -1; return c }})
		b.must("configure", err, events.ErrInvalid)
	}},
	{"close", func(b *bench) {
		id := b.open("a")
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		equal(b, "status", b.state(id).Status, projector.StatusClosed)
		_, err := b.Submit(b.ctx, id, asks("t1", "x"))
		b.must("submit", err, api.ErrClosed)
		_, err = b.Inject(b.ctx, id, api.InjectRequest{Parts: text("x")})
		b.must("inject", err, api.ErrClosed)
		_, err = b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("b")})
		b.must("append", err, api.ErrClosed)
		b.must("close of nothing", b.CloseSession(b.ctx, "nobody", "x"), nil)
	}},
	{"grant", func(b *bench) {
		id := b.open()
		grants := func(want ...projector.Grant) {
			b.t.Helper()
			equal(b, "grants", append([]projector.Grant(nil), b.state(id).Grants...), want)
		}
		write, read := []events.SessionRight{events.GrantWrite}, []events.SessionRight{events.GrantRead}
		b.must("grant", b.Grant(b.ctx, id, api.GrantRequest{To: "b", Rights: write}), nil)
		b.must("grant", b.Grant(b.ctx, id, api.GrantRequest{To: "a", Rights: read}), nil)
		grants(projector.Grant{To: "a", Rights: read}, projector.Grant{To: "b", Rights: write})
		last := b.state(id).Seq
		b.must("grant again", b.Grant(b.ctx, id, api.GrantRequest{To: "a", Rights: read}), nil)
		equal(b, "sequence after the same grant", b.state(id).Seq, last)
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		b.must("revoke", b.Grant(b.ctx, id, api.GrantRequest{To: "b"}), nil)
		grants(projector.Grant{To: "a", Rights: read})
		b.must("grant of no right", b.Grant(b.ctx, id, api.GrantRequest{To: "a", Rights: []events.SessionRight{"command"}}), events.ErrInvalid)
		b.must("grant to no name", b.Grant(b.ctx, id, api.GrantRequest{To: "a b"}), events.ErrInvalidID)
		b.must("grant in nothing", b.Grant(b.ctx, "nobody", api.GrantRequest{To: "a"}), events.ErrNoSession)
	}},
	{"close_running", func(b *bench) {
		id := b.open()
		b.hangs(id)
		b.must("close", b.CloseSession(b.ctx, id, "x"), api.ErrTurnRunning)
		b.cancels(id)
	}},
	{"unknown_session", func(b *bench) {
		_, err := b.State(b.ctx, "nobody")
		b.must("state", err, events.ErrNoSession)
		_, err = b.View(b.ctx, "nobody")
		b.must("view", err, events.ErrNoSession)
		_, err = b.Submit(b.ctx, "nobody", asks("t1", "x"))
		b.must("submit", err, events.ErrNoSession)
		_, err = b.Inject(b.ctx, "nobody", api.InjectRequest{Parts: text("x")})
		b.must("inject", err, events.ErrNoSession)
		b.must("branch", b.BranchTo(b.ctx, "nobody", ""), events.ErrNoSession)
		_, err = b.ToolState(b.ctx, "nobody")
		b.must("tools", err, events.ErrNoSession)
		list, err := b.Tasks(b.ctx, "nobody")
		b.must("tasks", err, nil)
		equal(b, "tasks", len(list), 0)
		_, err = b.State(b.ctx, "no.body")
		b.must("state of no id", err, events.ErrInvalidID)
	}},
	{"state_at", func(b *bench) {
		id := b.open("a")
		before := b.state(id)
		_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("b")})
		b.must("append", err, nil)
		then, err := b.StateAt(b.ctx, id, before.Seq)
		b.must("state", err, nil)
		equal(b, "leaf then", then.Leaf, before.Leaf)
		now, err := b.StateAt(b.ctx, id, math.MaxUint64)
		b.must("state", err, nil)
		equal(b, "leaf now", now.Leaf, "b")
	}},
	{"external_plugins", func(b *bench) {
		list, err := b.ExternalPlugins(b.ctx)
		b.must("external plugins", err, nil)
		want := []api.ExternalPlugin{elsewhere()}
		if !reflect.DeepEqual(list, want) {
			b.t.Errorf("external plugins: got %+v, want %+v", list, want)
		}
	}},
	{"actions", func(b *bench) {
		id := b.open()
		list, err := b.Actions(b.ctx, id)
		b.must("actions", err, nil)
		if len(list) != 1 || list[0].Name != "greet" || len(list[0].Input) == 0 {
			b.t.Fatalf("actions: got %+v, want greet", list)
		}
		got, err := b.InvokeAction(b.ctx, id, "greet", []byte(`{"Name":"you"}`))
		b.must("invoke", err, nil)
		equal(b, "result", got.Text, `"hello you"`)
		_, err = b.InvokeAction(b.ctx, id, "else", nil)
		b.must("invoke", err, api.ErrUnknownAction)
	}},
}
