package projector

import (
	"errors"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// FoldVersion changes with every change of Apply or of the snapshot format. Other versions' snapshots are discarded.
const FoldVersion = 26

// ErrPartial reports a read that needs segments or books which are not attached; see [State.Missing].
var ErrPartial = errors.New("state is partial")

// Status is the lifecycle status of a session.
type Status string

// Statuses that the fold sets.
const (
	StatusNone    Status = ""        // before the first event
	StatusOpening Status = "opening" // initial nodes are being appended
	StatusOpen    Status = "open"
	StatusClosed  Status = "closed"
)

// Statuses of directory rows of erased sessions. The fold never has them.
const (
	StatusErasing Status = "erasing" // the erasure is in progress; if its program died, the next archiver finishes it
	StatusErased  Status = "erased"  // only the row is left
)

// Head is the small part of the state that is always loaded.
//
// Invariants, checked by [State.Check]: Run has one turn exactly while a turn runs; a queued turn is not running; an input
// is pending once; the catalogue is sorted by name; task ids are unique; a
// monitor's wake is a pending input.
type Head struct {
	Session   events.SessionID  `msgpack:"s"`
	Seq       events.Seq        `msgpack:"q"` // of the last folded commit
	Status    Status            `msgpack:"st,omitempty"`
	Opening   int64             `msgpack:"op,omitempty"` // number of expected commits of initial nodes
	Config    events.Config     `msgpack:"c"`
	ConfigSeq events.Seq        `msgpack:"cs,omitempty"` // sequence at which Config was set
	Parent    events.SessionID  `msgpack:"p,omitempty"`
	Forked    events.ForkedFrom `msgpack:"f,omitempty"`
	Labels    map[string]string `msgpack:"l,omitempty"`
	Relation  events.Relation   `msgpack:"rl,omitempty"`
	Options   map[string]string `msgpack:"o,omitempty"`  // JSON by plugin id
	First     events.Message    `msgpack:"ft,omitempty"` // first turn's input, until a caller takes it
	Access    events.ToolAccess `msgpack:"ta,omitempty"`
	Subagent  events.Subagent   `msgpack:"sa,omitempty"`
	Source    string            `msgpack:"us,omitempty"` // source of this session's usage in its parent's ledger
	Owner     string            `msgpack:"ow,omitempty"` // empty without an owner
	Grants    []Grant           `msgpack:"gr,omitempty"` // to callers other than the owner, sorted by caller
	CreatedAt events.Millis     `msgpack:"ca,omitempty"`
	UpdatedAt events.Millis     `msgpack:"ua,omitempty"`

	Leaf     events.NodeID `msgpack:"lf,omitempty"` // empty means before the first node
	Nodes    int64         `msgpack:"n,omitempty"`  // total number appended or copied
	Copied   int64         `msgpack:"cn,omitempty"` // number of nodes that the session started with as a copy
	Branched bool          `msgpack:"br,omitempty"` // the leaf was moved: some nodes may be on no active path
	Moves    int64         `msgpack:"mv,omitempty"` // number of moves of the leaf in this session
	Frames   []Frame       `msgpack:"fr,omitempty"`

	Catalog     Catalog            `msgpack:"t,omitempty"`
	Overlay     Overlay            `msgpack:"ol,omitempty"` // over the session's own tools
	ToolSources []string           `msgpack:"ts,omitempty"` // added tool sources, in order
	Extensions  []events.Extension `msgpack:"ex,omitempty"` // extensions for the protocol, in order
	Replaced    events.Seq         `msgpack:"xr,omitempty"` // sequence of the last replacement of Extensions; 0 without one

	Turns         int64                 `msgpack:"tn,omitempty"` // number of started turns
	Run           []Turn                `msgpack:"r,omitempty"`  // the running turn; at most one element
	Queue         []QueuedTurn          `msgpack:"tq,omitempty"` // requested turns, in order
	Scheduled     []ScheduledTurn       `msgpack:"sc,omitempty"` // turns accepted for a later time, sorted by time and then by log order
	Worker        events.WorkerID       `msgpack:"wk,omitempty"` // worker that started the last turn
	Callers       []string              `msgpack:"cl,omitempty"` // callers of the last ended turn
	Unnotified    []Notice              `msgpack:"ut,omitempty"` // of what plugins or the parent must be notified, in the order of the history
	Inputs        []Input               `msgpack:"in,omitempty"` // pending inputs, in order
	Ledger        []LedgerEntry         `msgpack:"lg,omitempty"` // usage of this session's own calls, sorted by source and model
	Prompted      int64                 `msgpack:"pm,omitempty"` // tokens of the last prompt
	Children      []ChildUsage          `msgpack:"ch,omitempty"` // sorted by session
	Plugins       []PluginState         `msgpack:"pl,omitempty"` // saved states, sorted by plugin
	Contributions []events.Contribution `msgpack:"cb,omitempty"` // to the prompts of turns with hooks before the turn
	Events        int64                 `msgpack:"e,omitempty"`  // number of folded events
	Stored        int64                 `msgpack:"by,omitempty"` // of the encoded commits, and of the bodies that they refer to; 0 in a state without a proof

	Tasks    []Task      `msgpack:"tk,omitempty"` // in order of creation; at most [KeptTasks] finished ones
	Monitors []Monitor   `msgpack:"mo,omitempty"` // sorted by id
	Feed     MonitorFeed `msgpack:"mf,omitempty"`

	Proof    proof.State `msgpack:"pf,omitempty"` // tree of the history's commits
	Redacted events.Seq  `msgpack:"rd,omitempty"` // first commit with an event without payload, which changed nothing; 0 without one
}

// Frame is a context segment of the session: the model sees messages from its start on.
type Frame struct {
	ID      events.FrameID `msgpack:"i"`
	Reason  string         `msgpack:"r"`
	Keep    events.NodeID  `msgpack:"k,omitempty"`
	Seeds   int64          `msgpack:"n,omitempty"` // number of its initial nodes
	Opened  events.Millis  `msgpack:"o"`
	Options []byte         `msgpack:"p,omitempty"` // JSON: the protocol's durable turn options
	State   []byte         `msgpack:"s,omitempty"` // state of the protocol's code executor
	Blob    events.BlobRef `msgpack:"b,omitempty"` // replaces State above the inline limit
}

// Catalog is the session's tool catalogue.
type Catalog struct {
	Generation int64              `msgpack:"g,omitempty"`
	Tools      []events.ToolEntry `msgpack:"t,omitempty"` // sorted by name
	Digest     string             `msgpack:"d,omitempty"` // of Tools
}

// Overlay is the overlay of the session's own tools.
type Overlay struct {
	events.SessionOverlaid
	Seq events.Seq `msgpack:"q"` // sequence of the overlay event
}

// IsZero reports whether the session never had an overlay.
func (o Overlay) IsZero() bool { return o.Seq == 0 }

// IsZero reports whether the session never had a catalogue.
func (c Catalog) IsZero() bool { return c.Generation == 0 }

// Tool finds a tool by name.
func (c *Catalog) Tool(name string) (*events.ToolEntry, bool) {
	x := findFirst(c.Tools, func(x *events.ToolEntry) bool { return x.Name == name })
	return x, x != nil
}

// QueuedTurn is a requested turn that waits.
type QueuedTurn struct {
	ID          events.TurnID              `msgpack:"i"`
	Input       events.TurnInput           `msgpack:"n"`
	Cancelled   bool                       `msgpack:"c,omitempty"` // cancelled before its start
	Cancel      events.TurnCancelRequested `msgpack:"x,omitempty"` // the first cancel request
	RequestedAt events.Millis              `msgpack:"a"`
	Root        events.TurnID              `msgpack:"r,omitempty"` // of a follow-on turn: the turn that a host requested
	Switches    int64                      `msgpack:"s,omitempty"` // number of frame switches since Root
	Busy        events.WhenBusy            `msgpack:"b,omitempty"` // policy of the request, if another turn ran or waited
	Behind      events.TurnID              `msgpack:"h,omitempty"` // that other turn
	Seq         events.Seq                 `msgpack:"q"`           // of the commit that accepted it
	Callers     []string                   `msgpack:"cl,omitempty"`
	Trace       events.TraceParent         `msgpack:"tp,omitempty"`
}

// ScheduledTurn is a turn that was accepted for a later time.
type ScheduledTurn struct {
	ID    events.TurnID    `msgpack:"i"`
	Input events.TurnInput `msgpack:"n"`
	At    events.Millis    `msgpack:"t"`
	Busy  events.WhenBusy  `msgpack:"b,omitempty"`
	Seq   events.Seq       `msgpack:"q"` // of the commit that accepted it
	Asked events.Millis    `msgpack:"a"` // time of acceptance

	Cancel events.TurnCancelRequested `msgpack:"x,omitempty"`

	Callers []string `msgpack:"c,omitempty"`

	Trace events.TraceParent `msgpack:"tp,omitempty"`
}

// Notice is an ended turn, or a change of the configuration, of which the history does not record that the plugins, or the parent's call,
// were notified: the turn has turn.announced, or answers a call, and has no turn.told; the change was announced, and has no session.told.
type Notice struct {
	Turn    events.TurnID   `msgpack:"i,omitempty"` // empty: a change of the configuration
	Worker  events.WorkerID `msgpack:"w,omitempty"` // worker that ended the turn, and notifies the plugins while it lives; empty: they are not notified of it
	Answers events.EffectID `msgpack:"a,omitempty"` // call of the parent that waits for the turn's end; empty: none does
	Change  *ConfigNotice   `msgpack:"c,omitempty"`
}

// ConfigNotice is a change of the configuration.
type ConfigNotice struct {
	Seq      events.Seq    `msgpack:"q"` // of its commit
	Previous events.Config `msgpack:"p"`
	Current  events.Config `msgpack:"n"`
}

// NoticeKey is the identity of a [Notice].
type NoticeKey struct {
	Turn       events.TurnID
	Configured events.Seq // of the commit of a change of the configuration; else 0
}

// Key is the notice's identity.
func (n *Notice) Key() NoticeKey {
	if n.Change != nil {
		return NoticeKey{Configured: n.Change.Seq}
	}
	return NoticeKey{Turn: n.Turn}
}

// ForPlugins reports whether the plugins must be notified.
func (n *Notice) ForPlugins() bool { return n.Worker != "" || n.Change != nil }

// Turn is the running turn.
type Turn struct {
	ID          events.TurnID              `msgpack:"i"`
	Index       int64                      `msgpack:"x"` // from 1
	Input       events.TurnInput           `msgpack:"n"`
	Attempt     int64                      `msgpack:"a"`
	Worker      events.WorkerID            `msgpack:"w"`
	Starts      int64                      `msgpack:"j"`            // consecutive turn.started events without progress; failed attempts plus one
	Seq         events.Seq                 `msgpack:"sq"`           // of the commit that accepted it
	Callers     []string                   `msgpack:"cl,omitempty"` // callers that requested it, or whose inputs it took; sorted
	Trace       events.TraceParent         `msgpack:"tp,omitempty"` // the client's span of the request
	RequestedAt events.Millis              `msgpack:"ra"`
	StartedAt   events.Millis              `msgpack:"sa"`
	ClaimedAt   events.Millis              `msgpack:"ca"`           // time of the claim of Attempt, by its worker's clock
	Since       events.Millis              `msgpack:"si"`           // time of the commit with which it came to what it needs: hooks, a reply, its calls
	Environment string                     `msgpack:"en,omitempty"` // of the configuration when it started
	Iteration   int64                      `msgpack:"it"`           // iteration of the next or current model call, or of the running calls
	Replied     bool                       `msgpack:"rp"`           // the reply of Iteration is recorded; its calls run
	Calls       []Call                     `msgpack:"c,omitempty"`  // calls of that reply
	Cancel      events.TurnCancelRequested `msgpack:"cx,omitempty"`
	Cancelled   bool                       `msgpack:"cd,omitempty"` // Cancel is set
	Usage       events.Usage               `msgpack:"u,omitempty"`
	ToolCalls   int64                      `msgpack:"tc,omitempty"`
	Faults      int64                      `msgpack:"fa,omitempty"` // consecutive answers without the required form
	Fallback    events.FallbackTo          `msgpack:"fb,omitempty"` // current fallback model; zero for the configuration's first model

	Root     events.TurnID      `msgpack:"rt,omitempty"` // of a follow-on turn: the turn that a host requested
	Switches int64              `msgpack:"sw,omitempty"` // number of frame switches since Root
	Base     events.NodeID      `msgpack:"b,omitempty"`  // the leaf before the turn
	Points   []events.HookPoint `msgpack:"p,omitempty"`  // points with hooks
	Prepared bool               `msgpack:"pr,omitempty"` // the hooks before the turn have run
	Viewed   bool               `msgpack:"vw,omitempty"` // View replaces the messages up to Upto
	Upto     events.NodeID      `msgpack:"up,omitempty"`
	View     []events.ViewItem  `msgpack:"v,omitempty"`
	Primed   bool               `msgpack:"pm,omitempty"` // the hooks before the model call of Iteration have run
	System   string             `msgpack:"sy,omitempty"` // of hooks before a model call: takes the place of the configuration's instructions
	Gated    bool               `msgpack:"g,omitempty"`  // the hooks before the calls have run
	Asks     []Approval         `msgpack:"q,omitempty"`  // approval requests of the calls
	Resolved []Resolution       `msgpack:"z,omitempty"`  // results of pending calls, until they return
	Timed    []TimedResult      `msgpack:"ti,omitempty"` // scheduled results of pending calls, in log order
	Nested   []NestedCall       `msgpack:"ne,omitempty"` // nested calls
	Queued   []events.Message   `msgpack:"qm,omitempty"` // messages from hooks for the next checkpoint

	Checkpoint events.CheckpointKind `msgpack:"cp,omitempty"` // checkpoint whose hooks must run
	Ending     events.TurnCompleted  `msgpack:"e,omitempty"`  // how the turn ends after the last hooks
	Direct     []DirectReply         `msgpack:"d,omitempty"`  // direct completions, by key

	Contributed []Contributed `msgpack:"co,omitempty"` // by hooks before model calls
}

// HasHooks reports whether the turn's plugins have hooks at a point.
func (t *Turn) HasHooks(p events.HookPoint) bool { return slices.Contains(t.Points, p) }

// Approval is an approval request of a call, with its answer.
type Approval struct {
	events.ToolApprovalAsked
	Answered bool                     `msgpack:"w,omitempty"`
	Answer   events.ToolApprovalGiven `msgpack:"s,omitempty"`
	At       events.Millis            `msgpack:"m,omitempty"` // time of the answer
}

// Resolution is the result of a pending call.
type Resolution struct {
	Effect events.EffectID   `msgpack:"e"`
	Result events.ToolResult `msgpack:"r"`
	At     events.Millis     `msgpack:"t"`
}

// TimedResult is a scheduled result of a pending call.
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

// PluginState is the last saved state of a plugin.
type PluginState struct {
	Plugin    string            `msgpack:"p"`
	Version   string            `msgpack:"v"`
	Revision  uint64            `msgpack:"r"`
	State     []byte            `msgpack:"s,omitempty"`
	Blob      events.BlobRef    `msgpack:"b,omitempty"`
	Artifacts []events.Artifact `msgpack:"x,omitempty"`
}

// ChildUsage is the last reported total usage of a child session.
type ChildUsage struct {
	Session events.SessionID    `msgpack:"s"`
	Source  string              `msgpack:"o"`
	At      events.Seq          `msgpack:"q"`
	Entries []events.UsageEntry `msgpack:"e"`
}

// Call is one tool call of the running iteration.
type Call struct {
	ID     events.CallID     `msgpack:"i,omitempty"` // from the model's reply
	Tool   string            `msgpack:"n"`
	Args   []byte            `msgpack:"a,omitempty"`
	Blob   events.BlobRef    `msgpack:"b,omitempty"` // replaces Args above the inline limit
	Called bool              `msgpack:"g,omitempty"` // recorded in tool.called
	Holder string            `msgpack:"h,omitempty"` // instance of a plugin that has the call; empty if a worker runs it
	Term   string            `msgpack:"t,omitempty"` // of the program that is Holder; empty where none is known
	Pended bool              `msgpack:"p,omitempty"` // waits for a result from outside
	Done   bool              `msgpack:"d,omitempty"`
	Result events.ToolResult `msgpack:"r,omitempty"`
	At     events.Millis     `msgpack:"m,omitempty"` // time of Result
	Places []byte            `msgpack:"w,omitempty"` // as the rules judged them, see [events.ToolApprovalAsked]
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
	Index       int64          `msgpack:"x"` // 0 if it never started
	Input       string         `msgpack:"n"` // digest of the input
	End         events.TurnEnd `msgpack:"e"`
	Issue       events.Issue   `msgpack:"s,omitempty"`
	Tool        string         `msgpack:"o,omitempty"` // tool whose result ended the turn, if any
	Call        int64          `msgpack:"c,omitempty"` // index of its call among the reply's tool calls
	Attempts    int64          `msgpack:"a"`
	ModelCalls  int64          `msgpack:"m"` // number of recorded replies
	ToolCalls   int64          `msgpack:"t"`
	Usage       events.Usage   `msgpack:"u,omitempty"`
	Leaf        events.NodeID  `msgpack:"l,omitempty"` // at the turn's end
	RequestedAt events.Millis  `msgpack:"ra"`
	StartedAt   events.Millis  `msgpack:"sa"`
	CompletedAt events.Millis  `msgpack:"ca"`
	Seq         events.Seq     `msgpack:"q"` // of the commit that ended it
	Asked       events.Seq     `msgpack:"k"` // of the commit that accepted it

	Callers string           `msgpack:"cl,omitempty"` // at its end, separated by blanks, so that records are comparable
	By      events.TurnID    `msgpack:"b,omitempty"`  // of a diverted turn: the other turn
	Session events.SessionID `msgpack:"w,omitempty"`  // of a branched turn: the other session

	Cancel   events.TurnCancelRequested `msgpack:"cx,omitempty"` // of a cancelled turn: the first cancel request
	Protocol string                     `msgpack:"pr,omitempty"` // at its end; empty is "standard"
}

// Lasted is the time from the turn's start to its end, in ms; 0 where it never started, and where the times of its commits, which an
// import takes from elsewhere, go backwards.
func (r *TurnRecord) Lasted() int64 {
	if r.StartedAt == 0 {
		return 0
	}
	return max(int64(r.CompletedAt-r.StartedAt), 0)
}

// SettledInput is an accepted or cancelled input.
type SettledInput struct {
	ID       events.InputID `msgpack:"i"`
	Digest   string         `msgpack:"d"` // of role, parts and boundary
	Accepted bool           `msgpack:"a,omitempty"`
}

// LedgerEntry is the total usage of one source and model.
type LedgerEntry struct {
	Source string       `msgpack:"s"` // "turn", the source of a direct completion, or a child's source
	Model  string       `msgpack:"m"`
	Usage  events.Usage `msgpack:"u"`
}

// State is the fold of a prefix of one session's history. It is not safe for concurrent use. Nodes and records that
// it returns never change.
type State struct {
	Head
	body  stateBody
	ahead bool // has folded events of a commit that is not in the log yet

	last        events.CommitID // of the commit at Seq; empty in a state from a snapshot
	resets      int             // see [State.Resets]
	incarnation string          // of the log's stream that the state is of; empty: not known

	// unproven is a state for readers: Proof is of an earlier sequence, so that it signs no head and has no snapshot.
	unproven bool
}

// Turn is the running turn, or nil.
func (s *State) Turn() *Turn {
	if len(s.Run) == 0 {
		return nil
	}
	return &s.Run[0]
}

// Frame is the current frame. Before the first event it is zero.
func (s *State) Frame() Frame {
	if len(s.Frames) == 0 {
		return Frame{}
	}
	return s.Frames[len(s.Frames)-1]
}

// InitialFrame is the id of a session's first frame.
func InitialFrame(session events.SessionID) events.FrameID {
	return events.FrameID(session) + ":frame:initial"
}

// Idle reports whether no turn runs or is queued.
func (s *State) Idle() bool { return len(s.Run) == 0 && len(s.Queue) == 0 }
