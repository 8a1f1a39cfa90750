package external

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/external"
)

// TestServerDiesDuringCalls ends one of three servers with the accounts of deploy/nats while calls run: the server of the
// node, that of the plugin, or that of neither. Each call runs once and has its result, and so have the calls after it.
func TestServerDiesDuringCalls(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"of_the_node", "of_the_plugin", "of_neither"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			const turns = 6
			all, url := accounts(t, 3)
			open := func(url string) *bus.Bus {
				b, err := bus.Open(harness.Context(t), bus.Config{URL: url, Inbox: "_INBOX.node", Replicas: 3, Wait: true})
				runtest.WantError(t, "open", err, nil)
				t.Cleanup(b.Close)
				return b
			}
			b := open(url("node"))
			own := connectElsewhere(t, url("plugin-notes"), b.Conn().ConnectedServerName())
			of := map[string]string{b.Conn().ConnectedServerName(): "of_the_node", own.ConnectedServerName(): "of_the_plugin"}
			dies := slices.IndexFunc(all, func(ns *server.Server) bool { return cmp.Or(of[ns.Name()], "of_neither") == victim })
			stays := strings.Split(url("node"), ",")[(dies+1)%3]
			s := &setting{System: harness.StartWith(t, nil, open(stays)), runs: filepath.Join(t.TempDir(), "runs")}
			var err error
			s.first, err = external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "notes"}}})
			runtest.WantError(t, "plugins", err, nil)
			runtest.WantError(t, "start", s.first.Start(s.Ctx), nil)
			t.Cleanup(s.first.Stop)
			n, _ := s.StartNodeOn(b, s.first.Factories()...)
			s.Host = n.Host()
			i, err := remote.Start(s.Ctx, remote.Config{Conn: own, Plugin: notes(s.runs), Version: "1", Instance: "i1"})
			runtest.WantError(t, "instance", err, nil)
			t.Cleanup(func() { _ = i.Stop(context.Background()) }) // its server may be gone
			s.alive(1)
			s.Model.Script = nil
			var ids []events.SessionID
			for range turns {
				s.Model.Script = append(s.Model.Script, harness.Reply(
					harness.Call("k", "write", `{"text":"milk","hold":true}`), harness.Call("l", "look", `{"text":"eggs","hold":true}`)))
			}
			for range 2 * turns {
				s.Model.Script = append(s.Model.Script, harness.Reply(harness.Text("done")))
			}
			for n := range turns {
				ids = append(ids, s.Open(api.CreateRequest{}))
				s.StartTurn(ids[n], "t1", harness.Text("note it"))
			}
			s.logged("began", 2*turns)
			died := all[dies].Name()
			all[dies].Shutdown()
			for name, nc := range map[string]*nats.Conn{"node": b.Conn(), "plugin": own} {
				s.AwaitPolling("the connection of the "+name, func() bool { return nc.IsConnected() && nc.ConnectedServerName() != died })
			}
			s.release()
			for _, id := range ids {
				s.AwaitPolling("the end of the turn", func() bool { // until streams have leaders again, reads have no answer
					once, cancel := context.WithTimeout(s.Ctx, 30*time.Second)
					defer cancel()
					_, err := s.Await(once, id, "t1")
					return err == nil
				})
				s.AwaitTurn(id, "t1")
				for call, want := range map[string]string{"k": "noted: milk", "l": "noted: eggs"} {
					runtest.Equal(t, fmt.Sprintf("call %s of session %s", call, id), s.CallResult(id, call), want)
				}
			}
			runtest.DeepEqual(t, "runs", s.began(), 2*turns)
			s.Model.Rescript(calling("write", `{"text":"bread"}`)...)
			s.RunTurn(ids[0], "t2", harness.Text("more"))
			runtest.DeepEqual(t, "runs after the next call", s.began(), 2*turns+1)
			harness.VerifyHistory(t, b, ids[0])
		})
	}
}

// connectElsewhere connects a plugin to another server than the named one. Its connection may go to any of the list later.
func connectElsewhere(t *testing.T, urls, other string) *nats.Conn {
	t.Helper()
	list := strings.Split(urls, ",")
	for n := range list {
		first := append(list[n:len(list):len(list)], list[:n]...)
		nc, err := nats.Connect(strings.Join(first, ","), nats.DontRandomize(), nats.CustomInboxPrefix("_INBOX.plugin-notes"), nats.MaxReconnects(-1))
		runtest.WantError(t, fmt.Sprint("connect to ", first[0]), err, nil)
		if nc.ConnectedServerName() != other {
			t.Cleanup(nc.Close)
			return nc
		}
		nc.Close()
	}
	t.Fatal("all servers have the same name")
	return nil
}
