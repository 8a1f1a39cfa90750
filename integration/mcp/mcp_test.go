package mcp

import (
	"encoding/base64"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/mcp"
)

// TestSmokeResults calls tools of a server in turns: each kind of result, failures, resources and prompts.
func TestSmokeResults(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	for name, c := range map[string]struct{ tool, args, want string }{
		"text":              {"srv__look", `{"do":"x"}`, "did x"},
		"failure":           {"srv__look", `{"do":"fail","text":"no"}`, "[failed] as requested: no"},
		"structured":        {"srv__look", `{"do":"structured"}`, "18 degrees\n{\"degrees\":18}"},
		"digits":            {"srv__look", `{"do":"digits"}`, "a number\n{\"number\":9007199254740993}"}, // 2^53+1
		"against_schema":    {"srv__look", `{"do":7}`, "[failed]"},
		"unknown":           {"srv__nothing", `{}`, "is not available"},
		"resource":          {"srv__read_resource", `{"uri":"test://one"}`, "[resource test://one]\nthe first\n[resource test://two]"},
		"unknown_resource":  {"srv__read_resource", `{"uri":"test://none"}`, "[failed]"},
		"list_of_resources": {"srv__list_resources", `{}`, `"uri":"test://one"`},
		"prompt":            {"srv__get_prompt", `{"name":"greet","arguments":{"name":"Ann"}}`, "A greeting.\nuser:\nGreet Ann"},
		"list_of_prompts":   {"srv__list_prompts", `{}`, `"name":"greet"`},
	} {
		t.Run(name, func(t *testing.T) {
			if r := s.result(c.tool, c.args); !strings.Contains(r.Text, c.want) {
				t.Errorf("got %q, want %q", r.Text, c.want)
			}
		})
	}
	t.Run("picture", func(t *testing.T) {
		r := s.result("srv__look", `{"do":"picture"}`)
		if r.Text != "look" || len(r.Attachments) != 1 || r.Attachments[0].MediaType != "image/png" || r.Attachments[0].Text != base64.StdEncoding.EncodeToString([]byte{7, 8, 9}) {
			t.Errorf("got %+v, want the text and the picture", r)
		}
	})
	t.Run("environment", func(t *testing.T) {
		for line := range strings.Lines(s.result("srv__look", `{"do":"env"}`).Text) {
			if name, _, _ := strings.Cut(line, "="); name != "PATH" && name != runsVariable && name != "GORACE" {
				t.Errorf("got %s, want PATH and the variables of the server only", name)
			}
		}
	})
}

// TestSmokeServerDies kills a server during calls: the call is lost if it must not run twice, and otherwise runs again in the next
// run of the server. What the operator says goes before what the server claims.
func TestSmokeServerDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool    string
		tighten map[string]events.Effects
		outcome events.Outcome
		runs    int // of a call that kills the server
	}{
		"once":      {"once", nil, events.OutcomeLost, 1},
		"again":     {"again", nil, events.OutcomeFailure, 3},
		"look":      {"look", nil, events.OutcomeFailure, 3},
		"tightened": {"look", map[string]events.Effects{"look": "non_idempotent"}, events.OutcomeLost, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			server := s.own("srv")
			server.Effects = c.tighten
			s.source(server)
			r := s.result("srv__"+c.tool, `{"do":"die"}`)
			runtest.Equal(t, "outcome", r.Outcome, c.outcome)
			runtest.Equal(t, "runs", len(s.logged()), c.runs)
			runtest.Equal(t, "next call", s.result("srv__"+c.tool, `{"do":"x"}`).Text, "did x")
		})
	}
}

// TestKilledServer kills a server by a signal during a call that may repeat: the next run of the server answers it.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	pid, err := strconv.Atoi(s.result("srv__look", `{"do":"pid"}`).Text)
	runtest.WantError(t, "pid", err, nil)
	id := s.begin("srv__look", `{"do":"wait","hold":true}`)
	s.AwaitPolling("the call", func() bool { return len(s.logged()) == 2 })
	runtest.WantError(t, "kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	s.AwaitPolling("the next run", func() bool { return len(s.logged()) == 3 })
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, "waited")
	runtest.Equal(t, "runs", len(s.logged()), 3)
}

// TestCancel cancels a turn during a call: the server hears of it.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	id := s.begin("srv__once", `{"do":"wait"}`)
	s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
	_, _, err := s.Cancel(s.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "outcome", s.resultOf(id).Outcome, events.OutcomeCancelled)
	s.AwaitPolling("the cancel", func() bool { return len(s.logged()) == 2 })
}

// TestListChanges has a server add a tool: the next turn can call it, in every session.
func TestListChanges(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	runtest.Equal(t, "before", s.result("srv__added", `{"do":"x"}`).Class, plugin.ClassUnavailable)
	s.result("srv__once", `{"do":"more","text":"added"}`)
	s.AwaitPolling("the tool", func() bool { return s.result("srv__added", `{"do":"x"}`).Text == "I am new" })
}

// TestNodesShareServers has two nodes, each with a run of the server. A killed node's calls that may repeat go on at the
// other one.
func TestNodesShareServers(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	s.source(server)
	id := s.begin("srv__look", `{"do":"wait","hold":true}`)
	s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
	killed, other := s.nodes[0], s.nodes[1]
	if harness.Find[*events.TurnStarted](s.System, id)[0].Worker == other.ID() {
		killed, other = other, killed
	}
	s.Host = other.Host()
	s.kills[killed.ID()]()
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, "waited")
	starts := harness.Find[*events.TurnStarted](s.System, id)
	runtest.Equal(t, "starts of the turn", len(starts), 2)
	runtest.Equal(t, "worker of the second start", starts[len(starts)-1].Worker, other.ID())
	runtest.Equal(t, "result of the other one", s.result("srv__look", `{"do":"x"}`).Text, "did x")
}

// TestHostileServers starts servers that do not keep to the protocol, beside one that does: nothing waits for them.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	s := start(t)
	good := s.own("good")
	bad := []mcp.Server{
		{Name: "silent", Command: "sleep", Args: []string{"1000"}},
		{Name: "ends", Command: "false"},
		{Name: "missing", Command: "/no/such/program"},
		{Name: "garbage", Command: "sh", Args: []string{"-c", "while :; do echo garbage; sleep 0.01; done"}},
		{Name: "endless", Command: "sh", Args: []string{"-c", "cat /dev/zero"}},
		{Name: "line", Command: "sh", Args: []string{"-c", `printf '{"a":"'; tr '\0' x </dev/zero`}},
		{Name: "nowhere", URL: "http://127.0.0.1:1/mcp"},
	}
	s.source(good, bad...)
	runtest.Equal(t, "result", s.result("good__look", `{"do":"x"}`).Text, "did x")
	for i := range bad {
		source := s.of(bad[i].Name)
		select {
		case <-source.Ready():
			t.Errorf("%s: its tools are registered", bad[i].Name)
		default:
		}
		runtest.WantError(t, "stop of "+bad[i].Name, source.Stop(s.Ctx), nil)
	}
}

// TestStartTimeout has a server that hangs in its first start: the start ends after the server's limit, and the next one registers its tools.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.Sandbox = []string{"sh", "-c", `[ -e "$MARK" ] && exec "$0" "$@"; : >"$MARK"; sleep 1000`}
	server.Env["MARK"] = filepath.Join(t.TempDir(), "started")
	server.StartTimeout = 5 * time.Second
	began := time.Now()
	s.source(server)
	if took := time.Since(began); took < server.StartTimeout || took >= mcp.DefaultStartTimeout {
		t.Errorf("the tools are registered: got after %s, want the limit of one start, %s, and less than the default, %s", took, server.StartTimeout, mcp.DefaultStartTimeout)
	}
	runtest.Equal(t, "result", s.result("srv__look", `{"do":"x"}`).Text, "did x")
}

// TestStopEndsCalls stops a source during a call that never ends, and during one that asks people.
func TestStopEndsCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tool, old string }{"hangs": {"srv__once", ""}, "asks": {"srv__ask", "1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			server := s.own("srv")
			server.Env[oldVariable] = c.old
			source := s.source(server)
			pid := s.pidOf(server)
			id := s.begin(c.tool, `{"do":"wait"}`)
			if c.old != "" {
				s.question(id, "Which one?")
			} else {
				s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
			}
			began := time.Now()
			runtest.WantError(t, "stop", source.Stop(s.Ctx), nil)
			if took := time.Since(began); took > 40*time.Second { // less than a drain takes
				t.Errorf("stop: took %v", took)
			}
			if s.alive(pid) {
				t.Error("the server runs on")
			}
		})
	}
}
