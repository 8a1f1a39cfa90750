package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

// result is the outcome of one conversation.
type result struct {
	plan  *playback.Plan
	state *projector.State
	err   error // a [*playback.Difference] where the history differs
}

// summary is what --json prints.
type summary struct {
	Conversations  int            `json:"conversations"`
	Equal          int            `json:"equal"`
	Different      int            `json:"different"`
	Failed         int            `json:"failed"`
	Sessions       int            `json:"sessions"`
	Turns          int64          `json:"turns"`
	Ends           map[string]int `json:"turn_ends"`
	ModelCalls     int64          `json:"model_calls"`
	ToolCalls      int64          `json:"tool_calls"`
	Events         int64          `json:"events"`
	Conflicts      int64          `json:"conflicts"`
	Takeovers      int64          `json:"takeovers"`
	UnknownEntries map[string]int `json:"unknown_entries,omitempty"` // kept as protocol nodes, by recorded type
	DurationMillis int64          `json:"duration_ms"`
	First          string         `json:"first_difference,omitempty"`
}

func summarize(results []result) summary {
	sum := summary{Conversations: len(results), Ends: map[string]int{}, UnknownEntries: map[string]int{}}
	for _, r := range results {
		switch {
		case r.err == nil:
			sum.Equal++
		case errors.As(r.err, new(*playback.Difference)):
			sum.Different++
		default:
			sum.Failed++
		}
		if r.err != nil && sum.First == "" {
			sum.First = r.err.Error()
		}
		if r.state != nil {
			sum.add(r)
		}
	}
	return sum
}

func (sum *summary) add(r result) {
	sum.Sessions++
	sum.Events += r.state.Events
	records, _ := r.state.Records() // the state comes from a host and is complete
	for i := range records {
		sum.Turns++
		sum.Ends[string(records[i].End)]++
		sum.ModelCalls += records[i].ModelCalls
		sum.ToolCalls += records[i].ToolCalls
		sum.Takeovers += max(records[i].Attempts-1, 0)
	}
	for i := range r.plan.Conv.Entries {
		if e := &r.plan.Conv.Entries[i]; e.Kind == recording.EntryOther {
			sum.UnknownEntries[e.Type]++
		}
	}
}

// demoOutput prints transcripts and progress. Lines of one step stay together.
type demoOutput struct {
	cmd *demoCmd
	s   *streams

	mu    sync.Mutex
	total int
	done  int
	began time.Time
	last  time.Time // of the last progress line
}

func newDemoOutput(c *demoCmd, s *streams) *demoOutput { return &demoOutput{cmd: c, s: s} }

func (w *demoOutput) start(plans []*playback.Plan, promise string) {
	w.total, w.began, w.last = len(plans), time.Now(), time.Now()
	if !w.cmd.JSON {
		write(w.s.Out, "%s, %s, durability %s\n\n", counted(w.total, "conversation"), counted(w.cmd.Workers, "worker"), promise)
	}
}

// tally lists counts by name: "2 cancelled, 3 finished".
func tally(counts map[string]int) string {
	list := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d %s", counts[name], strings.ReplaceAll(name, "_", " ")))
	}
	return strings.Join(list, ", ")
}

// counted is a number with its noun.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// progressEvery is the interval of progress lines on standard error with --json.
const progressEvery = 2 * time.Second

func (w *demoOutput) finished(r result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	verdict := "equal to its recording"
	if r.err != nil {
		verdict = r.err.Error()
	}
	if !w.cmd.JSON {
		write(w.s.Out, "── %s  %s  [%d/%d]\n\n", r.plan.Session, verdict, w.done, w.total)
	} else if time.Since(w.last) > progressEvery {
		w.last = time.Now()
		write(w.s.Err, "%d of %s, %s\n", w.done, counted(w.total, "conversation"), time.Since(w.began).Round(time.Second))
	}
}

// follower prints what each commit adds to one session.
type follower struct {
	w       *demoOutput
	plan    *playback.Plan
	text    strings.Builder
	printer *transcript.Printer
	nodes   int
}

func (w *demoOutput) follow(plan *playback.Plan, blobs blob.Store) *follower {
	f := &follower{w: w, plan: plan}
	f.printer = transcript.NewPrinter(&f.text, transcript.Options{Full: w.cmd.Full, Limit: 400, More: "--full shows it", Blob: func(ref events.BlobRef) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), blobWait)
		defer cancel()
		return blobs.Blob(ctx, ref)
	}})
	return f
}

// blobWait bounds the reading of one body for the transcript.
const blobWait = 5 * time.Second

func (f *follower) step(step *playback.Step, s *projector.State) {
	nodes, err := s.AllNodes()
	if err != nil || f.w.cmd.JSON {
		return
	}
	for _, n := range nodes[min(f.nodes, len(nodes)):] {
		f.printer.Node(n)
	}
	f.nodes = len(nodes)
	if step.Turn != nil {
		if record, err := s.Record(step.Turn.ID); err == nil && record != nil {
			f.printer.TurnEnded(record)
		}
	}
	if f.text.Len() == 0 {
		return
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	write(f.w.s.Out, "── %s\n%s\n", f.plan.Session, strings.TrimLeft(f.text.String(), "\n"))
	f.text.Reset()
}

func (w *demoOutput) end(sum summary, results []result) error {
	if w.cmd.JSON {
		enc := json.NewEncoder(w.s.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(sum); err != nil {
			return err
		}
	} else {
		w.table(sum)
	}
	for _, r := range results {
		if r.err != nil && !errors.As(r.err, new(*playback.Difference)) {
			return r.err
		}
	}
	if sum.Different > 0 {
		write(w.s.Err, "first difference: %s\n", sum.First)
		return errDifferent
	}
	return nil
}

func (w *demoOutput) table(sum summary) {
	write(w.s.Out, "conversations  %d: %d equal, %d different, %d failed\n", sum.Conversations, sum.Equal, sum.Different, sum.Failed)
	write(w.s.Out, "sessions       %d\nturns          %d: %s\nmodel calls    %d\ntool calls     %d\nevents         %d\nconflicts      %d\ntakeovers      %d\nduration       %s\n",
		sum.Sessions, sum.Turns, tally(sum.Ends), sum.ModelCalls, sum.ToolCalls, sum.Events, sum.Conflicts, sum.Takeovers,
		time.Duration(sum.DurationMillis)*time.Millisecond)
	if len(sum.UnknownEntries) > 0 {
		write(w.s.Out, "kept as nodes  %s\n", tally(sum.UnknownEntries))
	}
	if w.cmd.Store != "" && w.cmd.Servers == 1 {
		write(w.s.Out, "\nread them:     lash-replay --store %s ls\n", w.cmd.Store)
	}
}

var errDifferent = program.Silent("histories differ from their recordings")
