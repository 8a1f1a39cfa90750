package plugincheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// late is what a machine under load may add to a period of the protocol.
const late = 500 * time.Millisecond

var genericChecks = []check{ //nolint:gochecknoglobals // a table
	{"registers", func(ctx context.Context, s *setting) error {
		p, r, err := s.startProgram(ctx)
		if err != nil {
			return err
		}
		return s.await(ctx, func() error {
			status := s.plugins.Status()[0]
			switch {
			case status.Hash != r.Manifest.Hash():
				return errors.New("the node did not accept the registration")
			case len(status.Instances) == 0:
				return errors.New("no sign of life followed the registration")
			}
			return nil
		}, p)
	}},
	{"manifest", func(_ context.Context, s *setting) error {
		r := s.registered()[0]
		if r.Protocol != wire.Version {
			return fmt.Errorf("protocol is %d, want %d", r.Protocol, wire.Version)
		}
		for i := range r.Manifest.Tools {
			if t := &r.Manifest.Tools[i]; len(t.Schema) > 0 {
				if _, err := schema.Parse(fmt.Sprintf("manifest.tools[%d].schema", i), t.Schema); err != nil {
					return err
				}
			}
		}
		return r.Validate()
	}},
	{"signs", func(ctx context.Context, s *setting) error {
		first := len(s.signsOf(s.instance()))
		if err := s.signsAfter(ctx, first+3); err != nil {
			return err
		}
		list := s.signsOf(s.instance())[first:]
		for i := range list {
			if list[i].Hash != s.registered()[0].Manifest.Hash() {
				return fmt.Errorf("a sign has the hash %q, want that of the answer to the registration", list[i].Hash)
			}
			if i > 0 && list[i].at.Sub(list[i-1].at) > wire.SignEvery+s.cfg.Late {
				return fmt.Errorf("%s between two signs, want %s", list[i].at.Sub(list[i-1].at), wire.SignEvery)
			}
		}
		return nil
	}},
	{"sign_on_request", func(ctx context.Context, s *setting) error {
		for range 3 { // three requests at once: the signs of every second are too few
			_ = s.conn.Publish("lash.plugin."+s.cfg.Plugin+"."+wire.All+".sign", nil)
		}
		before := len(s.signsOf(s.instance()))
		short, cancel := context.WithTimeout(ctx, max(wire.SignEvery, s.cfg.Late))
		defer cancel()
		return s.signsAfter(short, before+3)
	}},
	{"unknown_tool", func(ctx context.Context, s *setting) error {
		a, err := s.call(ctx, &wire.Call{Tool: "no_such_tool"}, nil)
		if err == nil && (a.last.Error == nil || a.last.Error.Code != wire.CodeUnknownTool) {
			err = fmt.Errorf("answered %s, want an error %s", a, wire.CodeUnknownTool)
		}
		return err
	}},
	{"messages_for_another_program", func(ctx context.Context, s *setting) error { return s.foreign(ctx) }},
	{"garbage", func(ctx context.Context, s *setting) error {
		for _, verb := range []string{wire.VerbCall, wire.VerbCallback, wire.VerbCancel, wire.VerbRecorded, wire.VerbHook, wire.VerbSessionStart, wire.VerbIdle, "no_such_verb"} {
			for _, data := range []string{"", "{", "[]", "null", "7", `{"session":7}`, "\x00\xff"} {
				if err := s.conn.PublishRequest(s.subject(verb), s.conn.NewRespInbox(), []byte(data)); err != nil {
					return err
				}
			}
		}
		return s.signsAfter(ctx, len(s.signsOf(s.instance()))+2)
	}},
	{"registers_again", func(ctx context.Context, s *setting) error {
		before := len(s.registered())
		_ = s.conn.Publish(s.subject(wire.VerbRegister), nil)
		return s.await(ctx, func() error {
			list := s.registered()
			if len(list) == before {
				return errors.New("no registration followed a message at register")
			}
			if r := list[len(list)-1]; r.Instance != s.instance() || r.Term != s.term() || r.Manifest.Hash() != list[0].Manifest.Hash() {
				return fmt.Errorf("it registered as %q with the term %q, or another manifest", r.Instance, r.Term)
			}
			return nil
		}, s.main())
	}},
	{"second_instance_and_SIGTERM", func(ctx context.Context, s *setting) error {
		p, r, err := s.startProgram(ctx)
		if err != nil {
			return err
		}
		if r.Instance == s.instance() {
			return fmt.Errorf("both instances have the id %q", r.Instance)
		}
		if err := s.await(ctx, func() error {
			if n := len(s.plugins.Status()[0].Instances); n != 2 {
				return fmt.Errorf("the node knows %d instances, want 2", n)
			}
			return nil
		}, p); err != nil {
			return err
		}
		if err := p.terminate(ctx); err != nil {
			return err
		}
		return s.drained(r.Instance)
	}},
}

// drain ends the program.
var drain = check{"drain", func(ctx context.Context, s *setting) error { return s.drain(ctx) }} //nolint:gochecknoglobals // a row of the table

// drain asks the main program to end, and waits for that.
func (s *setting) drain(ctx context.Context) error {
	_ = s.conn.Publish(s.subject(wire.VerbDrain), nil)
	if err := s.main().ended(ctx); err != nil {
		return err
	}
	return s.drained(s.instance())
}

// signsAfter waits until the main program has sent n signs.
func (s *setting) signsAfter(ctx context.Context, n int) error {
	return s.await(ctx, func() error {
		if got := len(s.signsOf(s.instance())); got < n {
			return fmt.Errorf("%d signs of life, want %d", got, n)
		}
		return nil
	}, s.main())
}

// drained looks for a sign that says that the instance takes no new calls.
func (s *setting) drained(instance string) error {
	for _, in := range s.signsOf(instance) {
		if in.Draining {
			return nil
		}
	}
	return errors.New("no sign with draining")
}

// jsonOf is a value as JSON.
func jsonOf(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the tables have no such value
	}
	return data
}
