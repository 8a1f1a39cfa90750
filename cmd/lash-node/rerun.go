package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
)

type rerunCmd struct {
	Targets []string `arg:"" name:"file" help:"Archives of lash-replay export, or folders of them (*.lash)." type:"path" folders:""`

	From         events.TurnID `placeholder:"TURN" help:"The first turn that runs again. The conversation before it stays as recorded. Default: the first turn."`
	Provider     string        `placeholder:"NAME" help:"The model's provider. Default: the one whose key is in the environment."`
	Model        string        `placeholder:"NAME" help:"The model. Default: the one that the session has, or that its first reply is of."`
	Instructions string        `placeholder:"FILE" type:"path" help:"File with other instructions for the model. Default: those of the session."`
	ToolResults  string        `name:"tool-results" default:"recorded" enum:"recorded,live" help:"recorded: calls with the same tool and arguments get the recorded results, and others fail. live: the tools of --plugins run, with their effects; options of turns for plugins, such as those of gate, are left out. Default: ${default}."`
	Plugins      []string      `default:"none" placeholder:"LIST" help:"Plugins of the session, as lash-node serve lists them. Default: ${default}."`
	Root         string        `placeholder:"DIR" type:"path" help:"Directory of the plugins that work in one."`
	Scorer       string        `placeholder:"COMMAND" help:"Command of the shell that scores each session: it gets both sides as JSON on standard input, and prints a number."`
	Out          string        `short:"o" placeholder:"DIR" type:"path" help:"Folder for an archive of each new session, which lash-replay reads and compares."`
	connect.BodiesFlags
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*rerunCmd) Help() string {
	return `Runs recorded turns again on a fork: the same conversation up to --from, then the same inputs, with another model, other
instructions or other plugins. Nothing of the original changes: the fork lives in a temporary store, and in the archives of -o.

With --tool-results recorded no effect is repeated: a call with the tool and arguments of a recorded one gets that result, each
result once before any twice. Other calls fail with a text that says so, and are counted. Inputs that were injected while a
turn ran are not repeated.

Over several archives the output is a table: what changed in each session, and its score.

` + serve.ModelsHelp
}

// rerunReport is the output of rerun.
type rerunReport struct {
	Sessions []*rerunResult `json:"sessions"`
	Changed  int            `json:"changed"` // sessions in which a turn differs
	Failed   int            `json:"failed"`
}

// Run reruns each archive.
func (c *rerunCmd) Run(ctx context.Context, s *streams) error {
	instructions, err := c.instructions()
	if err != nil {
		return err
	}
	files, err := program.Archives(c.Targets)
	for i := 0; i < len(files) && err == nil; i++ {
		_, err = os.Stat(files[i])
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: lash-replay export SESSION -o FILE writes the archive of a session", err)
	}
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := os.MkdirAll(c.Out, 0o750); err != nil {
			return err
		}
	}
	r := &rerunReport{Sessions: []*rerunResult{}}
	for i, file := range files {
		s.Printf("%s (%d of %d)", file, i+1, len(files))
		one, err := c.session(ctx, s, file, instructions)
		if err != nil {
			if len(files) == 1 || ctx.Err() != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			one.Error = err.Error()
			r.Failed++
		}
		if one.changed() {
			r.Changed++
		}
		r.Sessions = append(r.Sessions, one)
	}
	if c.JSON {
		return writeJSON(s, r)
	}
	return r.print(s, len(files) == 1)
}

func (c *rerunCmd) instructions() (*string, error) {
	if c.Instructions == "" {
		return nil, nil //nolint:nilnil // those of the session
	}
	data, err := program.ReadFile(c.Instructions, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("--instructions: %w", err)
	}
	return new(string(data)), nil
}

// print prints the turns of one session, and a table of several.
func (r *rerunReport) print(s *streams, single bool) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	if single {
		r.Sessions[0].print(w)
		return w.Flush()
	}
	write(w, "SESSION\tTURNS\tANSWERS CHANGED\tCALLS CHANGED\tENDS CHANGED\tTOKENS\tMISSED CALLS\tSCORE\n")
	for _, one := range r.Sessions {
		if one.Error != "" {
			write(w, "%s\t%s\n", one.Session, one.Error)
			continue
		}
		answers, calls, ends := one.counts()
		write(w, "%s\t%d\t%d\t%d\t%d\t%d → %d\t%d\t%s\n", one.Session, len(one.Turns), answers, calls, ends, one.tokens(false), one.tokens(true), one.Missed, one.score())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	write(s.Out, "%s, %d changed, %d failed%s\n", program.Number(int64(len(r.Sessions)), "session"), r.Changed, r.Failed, r.mean())
	return nil
}

// mean is the mean of the scores, where there are some.
func (r *rerunReport) mean() string {
	sum, n := 0.0, 0
	for _, one := range r.Sessions {
		if one.Score != nil {
			sum, n = sum+*one.Score, n+1
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", mean score %.4g", sum/float64(n))
}

// rerunResult compares a session with its fork.
type rerunResult struct {
	Session events.SessionID `json:"session"`
	Fork    events.SessionID `json:"fork,omitempty"`
	File    string           `json:"file,omitempty"` // archive of the fork
	Turns   []rerunTurn      `json:"turns"`
	Served  int64            `json:"served"` // calls that got a recorded result
	Missed  int64            `json:"missed"` // calls without a recorded result
	Skipped int              `json:"skipped_inputs"`
	Score   *float64         `json:"score,omitempty"`
	Error   string           `json:"error,omitempty"`
}

// rerunTurn has both sides of a turn.
type rerunTurn struct {
	Turn     events.TurnID `json:"turn"`
	Recorded turnSide      `json:"recorded"`
	Rerun    turnSide      `json:"rerun"`
}

// turnSide is what a turn did.
type turnSide struct {
	End    events.TurnEnd `json:"end"`
	Answer string         `json:"answer"`
	Calls  []rerunCall    `json:"calls"`
	Tokens int64          `json:"tokens"`
	Issue  string         `json:"issue,omitempty"` // why the turn has no answer
}

// rerunCall is a call of the model.
type rerunCall struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

func (t *rerunTurn) sameCalls() bool {
	return slices.EqualFunc(t.Recorded.Calls, t.Rerun.Calls, func(x, y rerunCall) bool {
		return x.Tool == y.Tool && canonical(x.Args) == canonical(y.Args)
	})
}

func (r *rerunResult) counts() (answers, calls, ends int) {
	for i := range r.Turns {
		t := &r.Turns[i]
		if t.Recorded.Answer != t.Rerun.Answer {
			answers++
		}
		if !t.sameCalls() {
			calls++
		}
		if t.Recorded.End != t.Rerun.End {
			ends++
		}
	}
	return answers, calls, ends
}

func (r *rerunResult) changed() bool {
	answers, calls, ends := r.counts()
	return answers+calls+ends > 0
}

func (r *rerunResult) tokens(rerun bool) (n int64) {
	for i := range r.Turns {
		if rerun {
			n += r.Turns[i].Rerun.Tokens
		} else {
			n += r.Turns[i].Recorded.Tokens
		}
	}
	return n
}

func (r *rerunResult) score() string {
	if r.Score == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *r.Score)
}

// print prints what changed in each turn.
func (r *rerunResult) print(w *tabwriter.Writer) {
	write(w, "TURN\tEND\tCALLS\tTOKENS\tANSWER\n")
	for i := range r.Turns {
		t := &r.Turns[i]
		end, calls, answer := string(t.Recorded.End), fmt.Sprintf("%d same", len(t.Rerun.Calls)), "same"
		if t.Rerun.End != t.Recorded.End {
			end += " → " + string(t.Rerun.End)
		}
		if !t.sameCalls() {
			calls = fmt.Sprintf("%d → %d, changed", len(t.Recorded.Calls), len(t.Rerun.Calls))
		}
		if t.Recorded.Answer != t.Rerun.Answer {
			answer = fmt.Sprintf("%q → %q", events.Clip(t.Recorded.Answer, maxAnswer, "…"), events.Clip(t.Rerun.Answer, maxAnswer, "…"))
		}
		write(w, "%s\t%s\t%s\t%d → %d\t%s\n", t.Turn, end, calls, t.Recorded.Tokens, t.Rerun.Tokens, answer)
	}
	write(w, "%s got recorded results, %d had none\n", program.Number(r.Served, "call"), r.Missed)
	if r.Skipped > 0 {
		write(w, "%d injected inputs were not repeated\n", r.Skipped)
	}
	if r.Score != nil {
		write(w, "score %s\n", r.score())
	}
	if r.File != "" {
		write(w, "session %s in %s\n", r.Fork, r.File)
	}
}

// maxAnswer limits an answer in a table, in bytes.
const maxAnswer = 60
