package projector_test

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

const sid events.SessionID = "s1"

// driver makes a valid history. At each step it draws an action of a host, a model, a tool or a worker and commits
// the machine's decision.
type driver struct {
	*rapid.T
	s    *projector.State // folded ahead from decisions, never decoded
	log  []events.Entry   // as a reader of the stream decodes it
	open []events.Event   // decided, not committed yet
	at   events.Millis    // time of the open events
	n    int              // counter for ids
	each func(*projector.State, events.Entry)
}

// drive draws a history of at most steps steps. each gets the state after every commit; it may be nil.
func drive(t *rapid.T, steps int, each func(*projector.State, events.Entry)) *driver {
	d := &driver{T: t, s: projector.New(sid), each: each}
	d.commit(events.Of("", &events.SessionOpened{
		Config: events.Config{Model: "m0", MaxIterations: int64(d.upTo(4))}, Labels: map[string]string{"b": "2", "a": "1"},
		Commits: int64(d.upTo(2)),
	}))
	d.run(steps)
	return d
}

// resume draws a continuation of what s folded, with different ids.
func resume(t *rapid.T, s *projector.State, steps int) *driver {
	d := &driver{T: t, s: s, n: 1_000_000}
	d.run(steps)
	return d
}

func (d *driver) run(steps int) {
	actions := []func(){
		d.append, d.append, d.append, d.commitRequest, d.branch, d.frame, d.configure, d.inject, d.withdraw, d.grant, d.request, d.cancel, d.unknown,
		d.claim, d.claim, d.claim, d.answer, d.answer, d.answer, d.answer, d.answer,
	}
	for range d.upTo(steps) {
		rapid.SampledFrom(actions).Draw(d.T, "action")()
	}
	d.commit()
}

func (d *driver) upTo(n int) int { return rapid.IntRange(0, n).Draw(d.T, "number") }
func (d *driver) flip() bool     { return rapid.Bool().Draw(d.T, "flip") }

func (d *driver) next(prefix string) string {
	d.n++
	return fmt.Sprintf("%s%d", prefix, d.n)
}

// gather folds events ahead, as a worker does.
func (d *driver) gather(list []events.Event) {
	if len(d.open) == 0 {
		d.at = events.Millis(1000 + d.n)
	}
	for i := range list {
		d.s.ApplyUncommitted(&list[i], d.at)
	}
	d.open = append(d.open, list...)
}

// commit commits the events together with the gathered ones.
func (d *driver) commit(list ...events.Event) {
	d.gather(list)
	if len(d.open) == 0 {
		return
	}
	c := &events.Commit{
		ID: events.CommitID(d.next("c")), Session: sid, At: d.at, Actor: events.Actor{Kind: events.ActorNode}, Events: d.open,
	}
	data, err := events.Encode(c)
	if err != nil {
		d.Fatal(err)
	}
	if err := d.s.Committed(c); err != nil {
		d.Fatal(err)
	}
	d.open = nil
	decoded, err := events.Decode(data)
	if err != nil {
		d.Fatal(err)
	}
	e := events.Entry{Seq: d.s.Seq, Commit: decoded, Data: data}
	d.log = append(d.log, e)
	if d.each != nil {
		d.each(d.s, e)
	}
}

// commitRequest commits the result of a request with a key, which no worker folds ahead.
func (d *driver) commitRequest() {
	d.commit()
	c := &events.Commit{
		ID: events.CommitID(d.next("c")), Session: sid, At: events.Millis(1000 + d.n), Actor: events.Actor{Kind: events.ActorClient},
		Events: []events.Event{events.Of("", &events.GraphBranched{Leaf: d.s.Leaf})},
	}
	switch d.upTo(2) {
	case 0:
		c.Cause = rapid.SampledFrom([]string{"open frame", "stop monitor key"}).Draw(d.T, "cause")
	default:
		c.Key, c.Digest = rapid.SampledFrom([]string{"key", d.next("k")}).Draw(d.T, "key"), d.next("digest")
	}
	e := events.Entry{Seq: d.s.Seq + 1, Commit: c}
	if err := d.s.Apply(e); err != nil {
		d.Fatal(err)
	}
	d.log = append(d.log, e)
	if d.each != nil {
		d.each(d.s, e)
	}
}

// step commits the machine's decision. A lingering decision may join the next commit.
func (d *driver) step(in turn.Input) {
	out, err := turn.Step(d.s, in)
	if err != nil && !errors.Is(err, turn.ErrStale) {
		d.Fatal(err)
	}
	if d.gather(out.Events); !out.Linger || d.flip() {
		d.commit()
	}
}

// parts draws any parts: hosts may append parts that no model writes.
func (d *driver) parts() []events.Part {
	var list []events.Part
	for range d.upTo(3) {
		list = append(list, events.Part{
			Kind: rapid.SampledFrom([]events.PartKind{
				events.PartText, events.PartText, events.PartToolCall, events.PartToolResult, events.PartAttachment,
			}).Draw(d.T, "part"),
			Text: d.next("text "), Call: d.callID(), Tool: "t",
		})
	}
	return list
}

func (d *driver) callID() events.CallID {
	return rapid.SampledFrom([]events.CallID{"k1", "k2", "k3", ""}).Draw(d.T, "call")
}

func (d *driver) node(taken map[events.NodeID]bool) events.NewNode {
	wish := rapid.SampledFrom([]string{"a", "b", "u-t1", d.next("m")}).Draw(d.T, "id")
	id, err := d.s.FreeID(events.NodeID(wish), taken)
	if err != nil {
		d.Fatal(err)
	}
	taken[id] = true
	if d.upTo(4) == 0 {
		return events.NewNode{ID: id, Kind: events.NodePlugin, Type: "note", Body: []byte(`{"n":1}`)}
	}
	role := rapid.SampledFrom([]events.Role{events.RoleUser, events.RoleAssistant, events.RoleSystem}).Draw(d.T, "role")
	return events.NewNode{ID: id, Kind: events.NodeMessage, Message: events.Message{ID: events.MessageID(wish), Role: role, Parts: d.parts()}}
}

func (d *driver) nodes(most int) []events.NewNode {
	taken := make(map[events.NodeID]bool)
	var list []events.NewNode
	for range 1 + d.upTo(most-1) {
		list = append(list, d.node(taken))
	}
	return list
}

func (d *driver) append() {
	most := rapid.SampledFrom([]int{1, 3, 40}).Draw(d.T, "most")
	d.commit(events.Of("", &events.GraphAppended{Nodes: d.nodes(most), Key: rapid.SampledFrom([]string{"", "key"}).Draw(d.T, "key")}))
}

// some draws a node of the graph, or none.
func (d *driver) some() events.NodeID {
	all, err := d.s.AllNodes()
	if err != nil {
		d.Fatal(err)
	}
	if i := d.upTo(len(all)); i < len(all) {
		return all[i].ID
	}
	return ""
}

func (d *driver) branch() {
	if d.s.Turn() == nil {
		d.commit(events.Of("", &events.GraphBranched{Leaf: d.some()}))
	}
}

func (d *driver) frame() {
	f := &events.FrameOpened{Frame: events.FrameID(d.next("f")), Reason: "compaction"}
	if d.flip() {
		f.Keep = d.some()
	}
	if d.flip() {
		f.Nodes = d.nodes(2)
	}
	d.commit(events.Of("", f))
}

func (d *driver) configure() {
	d.commit(events.Of("", &events.SessionConfigured{Config: events.Config{
		Model: d.next("model"), MaxIterations: int64(d.upTo(4)), ContextWindow: 100,
	}}))
}

func (d *driver) inject() {
	d.commit(events.Of("", &events.InputInjected{
		Input: events.InputID(d.next("in")), Role: rapid.SampledFrom([]events.Role{events.RoleUser, events.RoleSystem}).Draw(d.T, "role"), Parts: d.parts(),
		Boundary: rapid.SampledFrom([]events.Boundary{events.BoundaryAfterWork, events.BoundaryBeforeCompletion}).Draw(d.T, "boundary"),
	}))
}

// withdraw cancels a pending or unknown input.
func (d *driver) withdraw() {
	id := events.InputID("unknown")
	if i := d.upTo(len(d.s.Inputs)); i < len(d.s.Inputs) {
		id = d.s.Inputs[i].ID
	}
	d.commit(events.Of("", &events.InputCancelled{Inputs: []events.InputID{id}}))
}

// grant changes the grant of one caller and checks that other grants stay.
func (d *driver) grant() {
	before := d.s.Clone()
	p := &events.SessionGranted{To: rapid.SampledFrom([]string{"alice", "bob", "carol", "dave"}).Draw(d.T, "to")}
	for _, r := range []events.SessionRight{events.GrantApprove, events.GrantRead, events.GrantWrite} {
		if d.flip() {
			p.Rights = append(p.Rights, r)
		}
	}
	d.commit(events.Of("", p))
	for _, to := range []string{"alice", "bob", "carol", "dave", "erin"} {
		want := before.Granted(to)
		if to == p.To {
			want = p.Rights
		}
		if got := d.s.Granted(to); !slices.Equal(got, want) {
			d.Errorf("rights of %s after a grant to %s: got %v, want %v", to, p.To, got, want)
		}
	}
}

func (d *driver) request() {
	busy := rapid.SampledFrom([]events.WhenBusy{
		events.BusyEnqueue, events.BusyInject, events.BusyReject, events.BusyInterrupt, events.BusyBranch,
	}).Draw(d.T, "busy")
	d.commit(turn.Request(d.s, events.TurnID(d.next("t")), events.TurnRequested{Input: events.TurnInput{Parts: d.parts()}, Busy: busy})...)
}

func (d *driver) cancel() {
	var ids []events.TurnID
	if t := d.s.Turn(); t != nil {
		ids = append(ids, t.ID)
	}
	for _, q := range d.s.Queue {
		ids = append(ids, q.ID)
	}
	if len(ids) > 0 {
		id := rapid.SampledFrom(ids).Draw(d.T, "turn")
		d.commit(events.Of(id, &events.TurnCancelRequested{Request: d.next("r"), Reason: "enough"}))
	}
}

func (d *driver) unknown() {
	d.commit(events.Event{Kind: "later.happened", V: 7, Raw: []byte{0x81, 0xa1, 'x', 0x01}})
}

// claim starts the next turn, or takes over the running one.
func (d *driver) claim() {
	if d.s.Turn() != nil && d.upTo(3) > 0 {
		return
	}
	if q := turn.Branching(d.s); q != nil {
		d.commit(events.Of(q.ID, &events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: "branch"}))
		return
	}
	if len(d.s.Queue) == 0 && d.s.Turn() == nil {
		in := events.TurnInput{Parts: d.parts()}
		switch id := events.TurnID(d.next("t")); {
		case d.upTo(3) == 0:
			d.commit(events.Of(id, &events.TurnScheduled{Input: in, At: events.Millis(1 + d.upTo(50))}))
			return
		default:
			d.commit(events.Of(id, &events.TurnRequested{Input: in}))
		}
	}
	if list := turn.DueEvents(d.s, events.Millis(d.upTo(50))); len(list) > 0 {
		d.commit(list...)
		return
	}
	c := turn.Claim{Worker: events.WorkerID(d.next("w")), Tools: []events.ToolEntry{
		{Name: "once"}, {Name: "pure", Effects: events.EffectsNone},
	}}
	if d.upTo(9) == 0 {
		c.Problem = events.Issue{Kind: "input_validation", Code: "invalid_turn_input"}
	}
	d.step(c)
}

// answer gives the running turn the result that it waits for.
func (d *driver) answer() {
	switch needs := turn.Next(d.s); {
	case needs.Stop:
		d.step(turn.Stop{})
	case needs.Model && d.upTo(9) == 0:
		d.step(turn.Failure{ModelFailed: events.ModelFailed{Iteration: needs.Iteration, Error: "server", Message: "down"}})
	case needs.Model:
		d.step(d.reply(needs.Iteration))
	case len(needs.Calls) > 0:
		d.step(d.results(needs))
	}
}

func (d *driver) reply(iteration int64) turn.Reply {
	prompt, err := d.s.Prompt()
	if err != nil {
		d.Fatal(err)
	}
	r := events.ModelReplied{
		Iteration: iteration, Prompt: prompt.Ref, Model: "m", Usage: events.Usage{Input: 10, Output: int64(d.upTo(3))},
		Stop: rapid.SampledFrom([]events.StopReason{
			events.StopEnd, events.StopEnd, events.StopEnd, events.StopToolUse, events.StopToolUse, events.StopUnknown,
			events.StopOutputLimit, events.StopContentFilter, events.StopCancelled,
		}).Draw(d.T, "stop"),
	}
	if d.upTo(5) > 0 {
		r.Parts = append(r.Parts, events.Part{Kind: events.PartText, Text: d.next("said ")})
	}
	for range d.upTo(3) {
		r.Parts = append(r.Parts, events.Part{
			Kind: events.PartToolCall, Call: d.callID(), Args: []byte(`{}`),
			Tool: rapid.SampledFrom([]string{"once", "pure", "missing"}).Draw(d.T, "tool"),
		})
	}
	return turn.Reply{ModelReplied: r}
}

// results returns some of the open calls.
func (d *driver) results(needs turn.Needs) turn.Results {
	in := turn.Results{Iteration: needs.Iteration}
	for _, c := range needs.Calls {
		if d.flip() || len(in.Results) == 0 {
			in.Results = append(in.Results, events.ToolResult{Call: c.Index, Text: d.next("result ")})
		}
	}
	return in
}
