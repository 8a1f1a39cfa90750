package turn_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays the sections of testdata/*.txtar. A line that begins with "> " is an input. Below it are its
// events, "lingers" if they may wait, and the needs of the state afterwards.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts: got %v, %v, want some", files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		runtest.NoError(t, err)
		for i := range archive.Files {
			s := &archive.Files[i]
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+s.Name, func(t *testing.T) {
				got := play(t, string(s.Data))
				switch {
				case *update:
					s.Data = []byte(got) // sections that -run leaves out stay as they are
				case got != string(s.Data):
					t.Errorf("transcript: got\n%s\nwant\n%s", got, s.Data)
				}
			})
		}
		if *update {
			runtest.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		}
	}
}

// player is the session of a transcript.
type player struct {
	t     *testing.T
	s     *projector.State
	tools []events.ToolEntry
	out   strings.Builder
}

func play(t *testing.T, text string) string {
	p := &player{t: t, s: projector.New("s1")}
	for line := range strings.Lines(text) {
		switch command, ok := strings.CutPrefix(line, "> "); {
		case ok:
			p.out.WriteString(line)
			p.happen(strings.Fields(command))
		case strings.HasPrefix(line, "#"):
			p.out.WriteString(line)
		}
	}
	return p.out.String()
}

// happen plays one line: a name and arguments, with key=value ones in any order.
func (p *player) happen(words []string) {
	p.t.Helper()
	a := arguments(words[1:])
	switch words[0] {
	case "open":
		p.fold("", &events.SessionOpened{Config: events.Config{MaxIterations: a.num("limit"), ContextWindow: a.num("window"), Fallbacks: a.fallbacks()}, Commits: a.num("commits")})
	case "configure":
		p.fold("", &events.SessionConfigured{Config: events.Config{Fallbacks: a.fallbacks()}})
	case "close":
		p.fold("", &events.SessionClosed{})
	case "tools":
		p.tools = a.tools()
	case "available":
		p.available(a.word(0), events.Availability(a.word(1)))
	case "request":
		p.fold(events.TurnID(a.word(0)), &events.TurnRequested{Input: a.input(1)})
	case "ask":
		p.commit(p.request(turn.Request(p.s, events.TurnID(a.word(0)), events.TurnRequested{Input: a.input(1), Busy: events.WhenBusy(a.get("busy"))})))
	case "cancel":
		p.fold(events.TurnID(a.word(0)), &events.TurnCancelRequested{Request: a.word(1)})
	case "append":
		id, err := p.s.FreeID(events.NodeID(a.word(0)), nil)
		runtest.NoError(p.t, err)
		p.fold("", &events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodeMessage, Message: events.Message{
			ID: events.MessageID(a.word(0)), Role: events.RoleUser, Parts: textParts(a.word(0)),
		}}}})
	case "branch":
		p.fold("", &events.GraphBranched{Leaf: events.NodeID(a.word(0))})
	case "inject":
		for _, id := range a.series(0) {
			p.fold("", &events.InputInjected{Input: events.InputID(id), Role: events.RoleUser, Parts: textParts(id), Boundary: events.Boundary(a.get("boundary"))})
		}
	default:
		if p.duty(words[0], a) {
			return
		}
		p.step(a.machine(p.t, words[0], p.tools, p.s))
	}
}

// request renders the events of a request.
func (p *player) request(list []events.Event) []events.Event {
	for i := range list {
		fmt.Fprintf(&p.out, "  %s\n", render(&list[i]))
	}
	return list
}

func textParts(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }

// available is a host that changes the availability of one tool.
func (p *player) available(name string, level events.Availability) {
	tools := append([]events.ToolEntry(nil), p.s.Catalog.Tools...)
	for i := range tools {
		if tools[i].Name == name {
			tools[i].Override = events.Overridden(level)
		}
	}
	p.fold("", &events.ToolStateApplied{Generation: p.s.Catalog.Generation + 1, Tools: tools})
}

// fold commits events of others, without output.
func (p *player) fold(id events.TurnID, payload events.Payload) {
	p.t.Helper()
	p.commit([]events.Event{events.Of(id, payload)})
}

func (p *player) commit(list []events.Event) {
	p.t.Helper()
	c := &events.Commit{ID: "c", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorNode}, Events: list}
	data, err := events.Encode(c)
	runtest.NoError(p.t, err)
	if c, err = events.Decode(data); err != nil {
		p.t.Fatal(err)
	}
	runtest.NoError(p.t, p.s.Apply(events.Entry{Seq: p.s.Seq + 1, Commit: c}))
}

// step plays an input of the machine and renders its output.
func (p *player) step(in turn.Input) {
	p.t.Helper()
	before := p.head()
	out, err := turn.Step(p.s, in)
	if !bytes.Equal(p.head(), before) {
		p.t.Errorf("%T changed the state", in)
	}
	if err != nil {
		fmt.Fprintf(&p.out, "  error: %v\n", err)
		return
	}
	for i := range out.Events {
		fmt.Fprintf(&p.out, "  %s\n", render(&out.Events[i]))
	}
	if len(out.Events) > 0 {
		p.commit(out.Events)
	}
	runtest.WantError(p.t, "check", p.s.Check(), nil)
	if out.Linger {
		p.out.WriteString("  lingers\n")
	}
	p.needs()
}

func (p *player) head() []byte {
	data, _, err := p.s.Snapshot()
	runtest.NoError(p.t, err)
	return data
}

func (p *player) needs() {
	needs := turn.Next(p.s)
	switch {
	case needs.Turn == "":
		p.out.WriteString("  needs nothing\n")
	case needs.Stop && needs.OnlyWaits():
		fmt.Fprintf(&p.out, "  needs the end of %s, which no worker runs\n", needs.Turn)
	case needs.Stop:
		fmt.Fprintf(&p.out, "  needs the end of %s\n", needs.Turn)
	case needs.OnlyWaits():
		fmt.Fprintf(&p.out, "  %s waits for an approval or an outside result\n", needs.Turn)
	case needs.Model:
		fmt.Fprintf(&p.out, "  needs %s%s\n", turn.ModelEffect(needs.Turn, needs.Iteration), p.model())
	}
	for _, c := range needs.Calls {
		fmt.Fprintf(&p.out, "  needs %s: %s(%s)\n", c.Effect, c.Tool, c.Args)
	}
}

// model renders the fallback model of the turn, if any.
func (p *player) model() string {
	prompt, err := p.s.Prompt()
	runtest.NoError(p.t, err)
	if prompt.Config.Model == "" {
		return ""
	}
	return " of " + prompt.Config.Provider + "/" + prompt.Config.Model
}

// args are the words of a line after its first.
type args []string

func arguments(words []string) args { return words }

// word is the i-th argument that is no key=value.
func (a args) word(i int) string {
	for _, w := range a {
		if strings.Contains(w, "=") {
			continue
		}
		if i == 0 {
			return w
		}
		i--
	}
	return ""
}

func (a args) get(key string) string {
	for _, w := range a {
		if value, ok := strings.CutPrefix(w, key+"="); ok {
			return value
		}
	}
	return ""
}

// fallbacks parses a list of <provider>/<model>; the provider may be empty.
func (a args) fallbacks() (list []events.Fallback) {
	for _, w := range strings.FieldsFunc(a.get("fallbacks"), func(r rune) bool { return r == ',' }) {
		provider, model, _ := strings.Cut(w, "/")
		list = append(list, events.Fallback{Provider: provider, Model: model})
	}
	return list
}

func (a args) num(key string) int64 {
	n, _ := strconv.ParseInt(a.get(key), 10, 64)
	return n
}

// series expands the word at i, for example i1..i3.
func (a args) series(i int) []string {
	first, last, ok := strings.Cut(a.word(i), "..")
	if !ok {
		return []string{first}
	}
	prefix := strings.TrimRight(first, "0123456789")
	from, _ := strconv.Atoi(strings.TrimPrefix(first, prefix))
	to, _ := strconv.Atoi(strings.TrimPrefix(last, prefix))
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, prefix+strconv.Itoa(n))
	}
	return list
}
