package servicetest

import (
	"os"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Environments are those of the nodes of a service.
func Environments() plugin.Environments {
	return plugin.Environments{"other": {Dir: os.TempDir(), Variables: map[string]string{"WORD": "opensesame"}}}
}

var environmentCases = []testCase{
	{"environment", func(b *bench) {
		to := func(name string) api.ConfigureRequest {
			return api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Environment = name; return c }}
		}
		id, err := b.Create(b.ctx, api.CreateRequest{Config: events.Config{Environment: "other"}})
		b.must("create", err, nil)
		equal(b, "environment", b.state(id).Config.Environment, "other")
		b.must("start", b.StartMonitor(b.ctx, id, events.MonitorSpec{ID: "m1", Command: "pwd; echo $WORD; sleep 1000", Environment: "other"}), nil)
		s := b.await(id, "lines", func(s *projector.State) bool { return s.Feed.Sequence >= 2 })
		equal(b, "first line", s.Feed.Updates[0].Message, ".")
		equal(b, "second line", s.Feed.Updates[1].Message, "[WORD]")
		b.must("configure", b.Configure(b.ctx, id, to("default")), nil)
		equal(b, "environment", b.state(id).Config.Environment, "default")

		_, err = b.Create(b.ctx, api.CreateRequest{ID: "never", Config: events.Config{Environment: "nowhere"}})
		equal(b, "field", as[*events.FieldError](b, "create", err).Field, "config.environment")
		b.must("create", err, events.ErrInvalid)
		b.must("configure", b.Configure(b.ctx, id, to("nowhere")), events.ErrInvalid)
		b.must("start", b.StartMonitor(b.ctx, id, events.MonitorSpec{ID: "m2", Command: "true", Environment: "nowhere"}), events.ErrInvalid)
	}},
}
