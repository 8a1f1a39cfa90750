package projector

import (
	"errors"
	"slices"

	"github.com/lash-go/lash/events"
)

// FoldVersion changes whenever Apply or the snapshot's shape does. Snapshots of another version are discarded.
const FoldVersion = 12

// ErrPartial is a question that needs segments which are not attached yet; see [State.Missing].
var ErrPartial = errors.New("state is partial")

// Status is where a session is in its life.
type Status string

// The statuses.
const (
	StatusNone    Status = ""        // no event yet
	StatusOpening Status = "opening" // initial nodes are still being appended
	StatusOpen    Status = "open"
	StatusClosed  Status = "closed"
)

// The statuses of rows of the directory that no fold has: of sessions that are erased.
const (
	StatusErasing Status = "erasing" // the next archiver finishes it, where whoever began died
	StatusErased  Status = "erased"  // the row is all that is left
)

// Head is the part of the state that is always at hand, and small.
//
// Invariants, checked by [State.Check]: Turn is set exactly while a turn
// runs; a queued turn is not running; an input is pending once; the current
// frame is the last of Frames; the catalogue is sorted by name; a task's id
// stands once; a monitor's wake is a pending input.
type Head struct {
	Session   events.SessionID  `msgpack:"s"`
	Seq       events.Seq        `msgpack:"q"` // of the last commit folded
	Status    Status            `msgpack:"st,omitempty"`
	Opening   int64             `msgpack:"op,omitempty"` // commits of initial nodes still to come
	Config    events.Config     `msgpack:"c"`
	ConfigSeq events.Seq        `msgpack:"cs,omitempty"` // where Config was set
	Parent    events.SessionID  `msgpack:"p,omitempty"`
	Forked    events.ForkedFrom `msgpack:"f,omitempty"`
	Labels    map[string]string `msgpack:"l,omitempty"`
	Relation  events.Relation   `msgpack:"rl,omitempty"`
	Options   map[string]string `msgpack:"o,omitempty"`  // JSON for plugins, by plugin id
	First     events.Message    `msgpack:"ft,omitempty"` // first turn's input, until somebody takes it
	Access    events.ToolAccess `msgpack:"ta,omitempty"`
	Subagent  events.Subagent   `msgpack:"sa,omitempty"`
	Source    string            `msgpack:"us,omitempty"` // of this session's usage in its parent's ledger
	Owner     string            `msgpack:"ow,omitempty"` // empty: nobody in particular
	Grants    []Grant           `msgpack:"gr,omitempty"` // to callers other than the owner, sorted by caller
	CreatedAt events.Millis     `msgpack:"ca,omitempty"`
	UpdatedAt events.Millis     `msgpack:"ua,omitempty"`

	Leaf     events.NodeID `msgpack:"lf,omitempty"` // empty: before the first node
	Nodes    int64         `msgpack:"n,omitempty"`  // ever appended, or copied
	Copied   int64         `msgpack:"cn,omitempty"` // of those, the ones that the session began with as a copy
	Branched bool          `msgpack:"br,omitempty"` // the leaf was moved: some nodes may be on no active path
	Moves    int64         `msgpack:"mv,omitempty"` // how often it was moved in this session
	Frames   []Frame       `msgpack:"fr,omitempty"`

	Catalog     Catalog            `msgpack:"t,omitempty"`
	Overlay     Overlay            `msgpack:"ol,omitempty"` // over the session's own tools
	ToolSources []string           `msgpack:"ts,omitempty"` // that were added to its plugins' tools, in that order
	Extensions  []events.Extension `msgpack:"ex,omitempty"` // that the protocol is handed wherever the session is opened, in order
	Replaced    events.Seq         `msgpack:"xr,omitempty"` // where Extensions were replaced last; 0: never

	Turns         int64                 `msgpack:"tn,omitempty"` // ever started
	Run           []Turn                `msgpack:"r,omitempty"`  // the running turn, or none
	Queue         []QueuedTurn          `msgpack:"tq,omitempty"` // requested, in order
	Scheduled     []ScheduledTurn       `msgpack:"sc,omitempty"` // accepted for a time, sorted by it; those of one time in the order of the log
	Worker        events.WorkerID       `msgpack:"wk,omitempty"` // that started a turn last
	Callers       []string              `msgpack:"cl,omitempty"` // of the turn that ended last
	Untold        []UntoldTurn          `msgpack:"ut,omitempty"` // ended turns that the plugins are to be told of, in the order of their ends
	Inputs        []Input               `msgpack:"in,omitempty"` // pending, in order
	Ledger        []LedgerEntry         `msgpack:"lg,omitempty"` // of this session's own calls, sorted by source, model
	Prompted      int64                 `msgpack:"pm,omitempty"` // tokens of the last prompt
	Children      []ChildUsage          `msgpack:"ch,omitempty"` // sorted by session
	Plugins       []PluginState         `msgpack:"pl,omitempty"` // saved states, sorted by plugin
	Contributions []events.Contribution `msgpack:"cb,omitempty"` // to the prompts of turns whose plugins are asked
	Events        int64                 `msgpack:"e,omitempty"`  // ever folded

	Tasks    []Task      `msgpack:"tk,omitempty"` // by creation; of those that live no more at most [KeptTasks]
	Monitors []Monitor   `msgpack:"mo,omitempty"` // sorted by id
	Feed     MonitorFeed `msgpack:"mf,omitempty"`
}

// Frame is a context segment of the session: what the model sees begins with it.
type Frame struct {
	ID      events.FrameID `msgpack:"i"`
	Reason  string         `msgpack:"r"`
	Keep    events.NodeID  `msgpack:"k,omitempty"`
	Seeds   int64          `msgpack:"n,omitempty"` // how many nodes it was opened with
	Opened  events.Millis  `msgpack:"o"`
	Options []byte         `msgpack:"p,omitempty"` // JSON: the protocol's durable turn options
	State   []byte         `msgpack:"s,omitempty"` // of the protocol's code executor
	Blob    events.BlobRef `msgpack:"b,omitempty"` // instead of State when above the inline cap
}

// find is the first element that is the one; nil when there is none.
func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// Catalog is the session's tool catalogue.
type Catalog struct {
	Generation int64              `msgpack:"g,omitempty"`
	Tools      []events.ToolEntry `msgpack:"t,omitempty"` // sorted by name
	Digest     string             `msgpack:"d,omitempty"` // of Tools
}

// Overlay lies over the session's own tools.
type Overlay struct {
	events.SessionOverlaid
	Seq events.Seq `msgpack:"q"` // where it was laid
}

// IsZero reports whether there never was one.
func (o Overlay) IsZero() bool { return o.Seq == 0 }

// IsZero reports whether no catalogue was ever applied.
func (c Catalog) IsZero() bool { return c.Generation == 0 }

// Tool finds a tool by name.
func (c *Catalog) Tool(name string) (*events.ToolEntry, bool) {
	x := find(c.Tools, func(x *events.ToolEntry) bool { return x.Name == name })
	return x, x != nil
}

// QueuedTurn is a turn that was requested and waits.
type QueuedTurn struct {
	ID          events.TurnID              `msgpack:"i"`
	Input       events.TurnInput           `msgpack:"n"`
	Cancelled   bool                       `msgpack:"c,omitempty"` // a cancel came before it started
	Cancel      events.TurnCancelRequested `msgpack:"x,omitempty"` // the evidence, of the first one
	RequestedAt events.Millis              `msgpack:"a"`
	Root        events.TurnID              `msgpack:"r,omitempty"` // of a follow-on: the turn that a host asked for
	Switches    int64                      `msgpack:"s,omitempty"` // frame switches that led here
	Busy        events.WhenBusy            `msgpack:"b,omitempty"` // what was asked for in case that another turn was in its way, as one was
	Behind      events.TurnID              `msgpack:"h,omitempty"` // that one
	Seq         events.Seq                 `msgpack:"q"`           // of the commit that accepted it
	Callers     []string                   `msgpack:"cl,omitempty"`
	Trace       events.TraceParent         `msgpack:"tp,omitempty"`
}

// ScheduledTurn is a turn that was accepted for a time.
type ScheduledTurn struct {
	ID    events.TurnID    `msgpack:"i"`
	Input events.TurnInput `msgpack:"n"`
	At    events.Millis    `msgpack:"t"`
	Busy  events.WhenBusy  `msgpack:"b,omitempty"`
	Seq   events.Seq       `msgpack:"q"` // of the commit that accepted it
	Asked events.Millis    `msgpack:"a"` // when it was accepted

	Cancel events.TurnCancelRequested `msgpack:"x,omitempty"`

	Callers []string `msgpack:"c,omitempty"`

	Trace events.TraceParent `msgpack:"tp,omitempty"`
}

// UntoldTurn is an ended turn of which no worker has told the session's plugins yet, as far as the history says.
type UntoldTurn struct {
	Turn   events.TurnID   `msgpack:"i"`
	Worker events.WorkerID `msgpack:"w"` // that ended it, and tells them while it lives
}

// Turn is the running turn.
type Turn struct {
	ID          events.TurnID              `msgpack:"i"`
	Index       int64                      `msgpack:"x"` // from 1
	Input       events.TurnInput           `msgpack:"n"`
	Attempt     int64                      `msgpack:"a"`
	Worker      events.WorkerID            `msgpack:"w"`
	Starts      int64                      `msgpack:"j"`            // turn.started in a row since the turn made progress: it failed as often, less one
	Seq         events.Seq                 `msgpack:"sq"`           // of the commit that accepted it
	Callers     []string                   `msgpack:"cl,omitempty"` // that asked for it, or whose inputs it took; sorted
	Trace       events.TraceParent         `msgpack:"tp,omitempty"` // the client's span that it belongs under
	RequestedAt events.Millis              `msgpack:"ra"`
	StartedAt   events.Millis              `msgpack:"sa"`
	ClaimedAt   events.Millis              `msgpack:"ca"`          // of Attempt, by its worker's clock
	Iteration   int64                      `msgpack:"it"`          // of the model call owed, or whose calls run
	Replied     bool                       `msgpack:"rp"`          // the reply of Iteration is recorded; its calls run
	Calls       []Call                     `msgpack:"c,omitempty"` // of that reply
	Cancel      events.TurnCancelRequested `msgpack:"cx,omitempty"`
	Cancelled   bool                       `msgpack:"cd,omitempty"` // a cancel was requested; Cancel is the evidence
	Usage       events.Usage               `msgpack:"u,omitempty"`
	ToolCalls   int64                      `msgpack:"tc,omitempty"`
	AnyResult   bool                       `msgpack:"ar,omitempty"` // the newest message of the turn holds tool results
	Faults      int64                      `msgpack:"fa,omitempty"` // answers in a row that were not of the form that the turn asks for
	Fallback    events.FallbackTo          `msgpack:"fb,omitempty"` // the model that the turn has come to; zero: the configuration's first

	Root     events.TurnID      `msgpack:"rt,omitempty"` // of a follow-on: the turn that a host asked for
	Switches int64              `msgpack:"sw,omitempty"` // frame switches that led here
	Base     events.NodeID      `msgpack:"b,omitempty"`  // the leaf before the turn
	Points   []events.HookPoint `msgpack:"p,omitempty"`  // where hooks are owed
	Prepared bool               `msgpack:"pr,omitempty"` // the hooks before the turn have run
	Viewed   bool               `msgpack:"vw,omitempty"` // View stands for the messages up to Upto
	Upto     events.NodeID      `msgpack:"up,omitempty"`
	View     []events.ViewItem  `msgpack:"v,omitempty"`
	Gated    bool               `msgpack:"g,omitempty"`  // the hooks before the calls have run
	Asks     []Approval         `msgpack:"q,omitempty"`  // of the calls
	Resolved []Resolution       `msgpack:"z,omitempty"`  // of pending calls, until they return
	Timed    []TimedResult      `msgpack:"ti,omitempty"` // results that pending calls get at a time, in the order of the log
	Nested   []NestedCall       `msgpack:"ne,omitempty"` // that the calls made
	Queued   []events.Message   `msgpack:"qm,omitempty"` // by hooks, for the next checkpoint

	Checkpoint events.CheckpointKind `msgpack:"cp,omitempty"` // whose hooks are owed
	Ending     events.TurnCompleted  `msgpack:"e,omitempty"`  // how the turn ends once the last hooks have run
	Direct     []DirectReply         `msgpack:"d,omitempty"`  // direct completions, by key
}

// Owes reports whether the turn's plugins are to be asked at a point.
func (t *Turn) Owes(p events.HookPoint) bool { return slices.Contains(t.Points, p) }

// Approval is a question about a call, and its answer.
type Approval struct {
	events.ToolApprovalAsked
	Answered bool                     `msgpack:"w,omitempty"`
	Answer   events.ToolApprovalGiven `msgpack:"s,omitempty"`
}

// Resolution is what a pending call came to.
type Resolution struct {
	Effect events.EffectID   `msgpack:"e"`
	Result events.ToolResult `msgpack:"r"`
}

// TimedResult is a result that a pending call gets at a time.
type TimedResult struct {
	Effect events.EffectID   `msgpack:"e"`
	At     events.Millis     `msgpack:"t"`
	Result events.ToolResult `msgpack:"r"`
	By     string            `msgpack:"b,omitempty"`
}

// NestedCall is a call that another call made.
type NestedCall struct {
	Effect events.EffectID   `msgpack:"e"`
	Tool   string            `msgpack:"n"`
	Digest string            `msgpack:"d"` // of the arguments
	Done   bool              `msgpack:"o,omitempty"`
	Result events.ToolResult `msgpack:"r,omitempty"`
}

// DirectReply is a direct completion of the running turn.
type DirectReply struct {
	events.ModelCompleted
}

// PluginState is a plugin's state as it was saved last.
type PluginState struct {
	Plugin    string            `msgpack:"p"`
	Version   string            `msgpack:"v"`
	Revision  uint64            `msgpack:"r"`
	State     []byte            `msgpack:"s,omitempty"`
	Blob      events.BlobRef    `msgpack:"b,omitempty"`
	Artifacts []events.Artifact `msgpack:"x,omitempty"`
}

// ChildUsage is what a child session has used in all, as it said last.
type ChildUsage struct {
	Session events.SessionID    `msgpack:"s"`
	Source  string              `msgpack:"o"`
	At      events.Seq          `msgpack:"q"`
	Entries []events.UsageEntry `msgpack:"e"`
}

// Call is one tool call of the running iteration.
type Call struct {
	ID     events.CallID     `msgpack:"i,omitempty"` // the model's
	Tool   string            `msgpack:"n"`
	Args   []byte            `msgpack:"a,omitempty"`
	Blob   events.BlobRef    `msgpack:"b,omitempty"` // of the arguments, where they are above the inline cap
	Begun  bool              `msgpack:"g,omitempty"` // recorded in tool.called
	Pended bool              `msgpack:"p,omitempty"` // waits for somebody outside
	Done   bool              `msgpack:"d,omitempty"`
	Result events.ToolResult `msgpack:"r,omitempty"`
}

// Input is an injected input that waits for a checkpoint or a turn.
type Input struct {
	ID       events.InputID  `msgpack:"i"`
	Role     events.Role     `msgpack:"r"`
	Parts    []events.Part   `msgpack:"p"`
	Boundary events.Boundary `msgpack:"b,omitempty"`
	Caller   string          `msgpack:"c,omitempty"`
}

// TurnRecord is a finished turn.
type TurnRecord struct {
	ID          events.TurnID  `msgpack:"i"`
	Index       int64          `msgpack:"x"` // 0 when it never started
	Input       string         `msgpack:"n"` // digest of the input
	End         events.TurnEnd `msgpack:"e"`
	Issue       events.Issue   `msgpack:"s,omitempty"`
	Tool        string         `msgpack:"o,omitempty"` // whose result ended it, if one did
	Call        int64          `msgpack:"c,omitempty"` // its position among the reply's tool calls
	Attempts    int64          `msgpack:"a"`
	ModelCalls  int64          `msgpack:"m"` // recorded replies
	ToolCalls   int64          `msgpack:"t"`
	Usage       events.Usage   `msgpack:"u,omitempty"`
	Leaf        events.NodeID  `msgpack:"l,omitempty"` // at its end
	RequestedAt events.Millis  `msgpack:"ra"`
	StartedAt   events.Millis  `msgpack:"sa"`
	CompletedAt events.Millis  `msgpack:"ca"`
	Seq         events.Seq     `msgpack:"q"` // of the commit that ended it
	Asked       events.Seq     `msgpack:"k"` // of the commit that accepted it

	Callers string           `msgpack:"cl,omitempty"` // as of its end, with blanks between: records can be compared
	By      events.TurnID    `msgpack:"b,omitempty"`  // of a turn that was diverted: the one in its way, or that took its message in
	Session events.SessionID `msgpack:"w,omitempty"`  // of one that branched: where it goes on

	Cancel   events.TurnCancelRequested `msgpack:"cx,omitempty"` // of a cancelled one: the evidence
	Protocol string                     `msgpack:"pr,omitempty"` // as of its end; empty is "standard"
}

// SettledInput is an input that was accepted or cancelled.
type SettledInput struct {
	ID       events.InputID `msgpack:"i"`
	Digest   string         `msgpack:"d"` // of role, parts and boundary
	Accepted bool           `msgpack:"a,omitempty"`
}

// LedgerEntry sums usage by who caused it.
type LedgerEntry struct {
	Source string       `msgpack:"s"` // "turn", that of a direct completion, or a child's
	Model  string       `msgpack:"m"`
	Usage  events.Usage `msgpack:"u"`
}

// State is the fold of a prefix of one session's history. It is not safe for
// concurrent use. Nodes and records that it hands out never change.
type State struct {
	Head
	body  body
	ahead bool // events of a commit that has not landed are folded in
}

// New is the state before the first event.
func New(session events.SessionID) *State {
	return &State{Head: Head{Session: session}}
}

// Clone is a copy that shares what never changes. It costs the same however
// long the history is. s goes on as before.
func (s *State) Clone() *State {
	c := *s
	c.Frames = slices.Clone(s.Frames)
	c.Run = slices.Clone(s.Run)
	if len(c.Run) > 0 {
		t := &c.Run[0]
		t.Calls, t.Asks, t.Nested = slices.Clone(t.Calls), slices.Clone(t.Asks), slices.Clone(t.Nested)
		t.Resolved, t.Queued, t.Direct = slices.Clone(t.Resolved), slices.Clip(t.Queued), slices.Clip(t.Direct)
		t.Timed = slices.Clip(t.Timed)
	}
	c.Grants = slices.Clip(s.Grants)
	c.Children, c.Plugins = slices.Clone(s.Children), slices.Clone(s.Plugins)
	c.Queue = slices.Clip(s.Queue)
	c.Scheduled = slices.Clip(s.Scheduled)
	c.Feed.Updates = slices.Clip(s.Feed.Updates)
	c.Inputs = slices.Clone(s.Inputs)
	c.Ledger = slices.Clone(s.Ledger)
	c.body = s.body.clone()
	return &c
}

// Turn is the running turn, or nil.
func (s *State) Turn() *Turn {
	if len(s.Run) == 0 {
		return nil
	}
	return &s.Run[0]
}

// Frame is the current frame. Before the first it is the zero frame.
func (s *State) Frame() Frame {
	if len(s.Frames) == 0 {
		return Frame{}
	}
	return s.Frames[len(s.Frames)-1]
}

// InitialFrame is the id of the frame that every session begins with.
func InitialFrame(session events.SessionID) events.FrameID {
	return events.FrameID(session) + ":frame:initial"
}

// Idle reports whether nothing runs and nothing is queued.
func (s *State) Idle() bool { return len(s.Run) == 0 && len(s.Queue) == 0 }
