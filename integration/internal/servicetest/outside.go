package servicetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// outsideCases are the operations of outside programs.
var outsideCases = []testCase{
	{"catalog", func(b *bench) {
		id := b.open()
		list, err := b.ToolCatalog(b.ctx, id)
		b.must("catalog", err, nil)
		var names []string
		for _, text := range list {
			var tool struct{ Name string }
			b.must("tool", json.Unmarshal(text, &tool), nil)
			names = append(names, tool.Name)
		}
		equal(b, "tools", slices.Contains(names, "gated") && slices.Contains(names, "later"), true)
		_, err = b.ToolCatalog(b.ctx, "nobody")
		b.must("catalog of nothing", err, events.ErrNoSession)
	}},
	{"first_input", func(b *bench) {
		id, err := b.Create(b.ctx, api.CreateRequest{First: says("begin")[0].Message})
		b.must("create", err, nil)
		first, err := b.TakeFirstTurnInput(b.ctx, id)
		b.must("take", err, nil)
		if first == nil || first.Text() != "begin" {
			b.t.Fatalf("first input: got %v, want begin", first)
		}
		for _, of := range []events.SessionID{id, b.open(), "nobody"} {
			first, err = b.TakeFirstTurnInput(b.ctx, of)
			b.must("take again", err, nil)
			if first != nil {
				b.t.Errorf("first input of %s: got %v, want none", of, first)
			}
		}
	}},
	{"complete", func(b *bench) {
		id := b.open("a")
		ask := plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "aside")}}
		got, err := b.Complete(b.ctx, id, ask, "me")
		b.must("complete", err, nil)
		equal(b, "text", got.Text, "you said aside")
		equal(b, "messages", b.texts(id), []string{"a"})
		for field, change := range map[string]func(*plugin.CompletionRequest){
			"messages":    func(r *plugin.CompletionRequest) { r.Messages = nil },
			".role":       func(r *plugin.CompletionRequest) { r.Messages = []events.Message{{Role: "else"}} },
			"tool_choice": func(r *plugin.CompletionRequest) { r.ToolChoice = plugin.ToolChoice{None: true, Required: true} },
			"config":      func(r *plugin.CompletionRequest) { r.Model = strings.Repeat("x", events.MaxIDBytes+1) },
			"source":      func(*plugin.CompletionRequest) {},
		} {
			wrong, source := ask, "me"
			if change(&wrong); field == "source" {
				source = ""
			}
			_, err = b.Complete(b.ctx, id, wrong, source)
			if f := as[*events.FieldError](b, field, err); !strings.HasSuffix(f.Field, field) {
				b.t.Errorf("complete with a wrong %s: got %v", field, err)
			}
		}
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		_, err = b.Complete(b.ctx, id, ask, "me")
		b.must("complete in a closed session", err, api.ErrClosed)
	}},
	{"complete_streaming", func(b *bench) {
		id := b.open()
		for what, said := range map[string]string{"short": "aside", "long": strings.Repeat("é ", plugin.MaxDeltaBytes)} {
			var streamed strings.Builder
			takenBack := false
			ask := plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, said)}, Stream: func(d plugin.CompletionDelta) {
				if d.Reset { // after a lost answer the repeat gets the recorded reply, which is not streamed
					takenBack = true
					streamed.Reset()
					return
				}
				if len(d.Text) > plugin.MaxDeltaBytes || d.Kind != events.PartText || !utf8.ValidString(d.Text) {
					b.t.Errorf("%s: got a delta of %d bytes, %q, want whole text", what, len(d.Text), d.Kind)
				}
				streamed.WriteString(d.Text)
			}}
			got, err := b.Complete(b.ctx, id, ask, "me")
			b.must("complete", err, nil)
			ask.Stream = nil
			whole, err := b.Complete(b.ctx, id, ask, "me")
			b.must("complete without a stream", err, nil)
			equal(b, what+": result", got, whole)
			equal(b, what+": streamed", streamed.String() == whole.Text || takenBack && streamed.String() == "", true)
		}
		ask := plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "hang")}}
		ctx, cancel := context.WithCancel(b.ctx)
		ask.Stream = func(plugin.CompletionDelta) { cancel() }
		_, err := b.Complete(ctx, id, ask, "me")
		equal(b, "cancelled by its caller", err != nil && b.ctx.Err() == nil, true)
		ask.Messages, ask.Stream = nil, func(plugin.CompletionDelta) { b.t.Error("got a delta of what is refused") }
		_, err = b.Complete(b.ctx, id, ask, "me")
		equal(b, "field", as[*events.FieldError](b, "refused", err).Field, "messages")
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		ask.Messages = []events.Message{plugin.Say(events.RoleUser, "aside")}
		_, err = b.Complete(b.ctx, id, ask, "me")
		b.must("complete in a closed session", err, api.ErrClosed)
	}},
	{"protocol_options", func(b *bench) {
		id := b.open("a")
		b.must("set", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"a":1}`), false), nil)
		equal(b, "options", string(b.state(id).Frame().Options), `{"a":1}`)
		last := b.state(id).Seq
		b.must("set the same", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"a":1}`), false), nil)
		equal(b, "sequence after the same", b.state(id).Seq, last)
		for _, wrong := range []string{"", "{", strings.Repeat("[", 200) + strings.Repeat("]", 200), `"` + strings.Repeat("x", events.MaxEventBytes) + `"`} {
			err := b.SetProtocolOptions(b.ctx, id, json.RawMessage(wrong), true)
			equal(b, "field", as[*events.FieldError](b, "wrong options", err).Field != "", true)
		}
		equal(b, "sequence after what is refused", b.state(id).Seq, last)
	}},
	{"extension", func(b *bench) {
		id := b.open()
		err := b.ApplyExtension(b.ctx, id, events.Extension{Type: "note", Body: []byte(`{"a":1}`)})
		b.must("apply", err, api.ErrProtocol) // the standard protocol accepts no extensions
		for field, wrong := range map[string]events.Extension{
			"type": {Body: []byte(`{}`)}, "body": {Type: "x", Body: []byte(`{`)},
		} {
			equal(b, "field", as[*events.FieldError](b, field, b.ApplyExtension(b.ctx, id, wrong)).Field, field)
		}
		b.must("replace", b.ReplaceExtensions(b.ctx, id, nil), nil)
		one := []events.Extension{{Type: "note"}}
		equal(b, "field", as[*events.FieldError](b, "replace by one", b.ReplaceExtensions(b.ctx, id, one)).Field, "extensions[0]")
		b.must("replace in nothing", b.ReplaceExtensions(b.ctx, "nobody", nil), events.ErrNoSession)
		b.must("apply to nothing", b.ApplyExtension(b.ctx, "nobody", events.Extension{Type: "x"}), events.ErrNoSession)
	}},
}
