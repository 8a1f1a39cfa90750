package httpapi

import (
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

// newSessionJSON opens a session.
type newSessionJSON struct {
	ID      events.SessionID  `json:"id,omitempty" jsonschema:"of the session; defaults to a new one"`
	Config  sessionConfigJSON `json:"config,omitzero"`
	Parent  events.SessionID  `json:"parent,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Nodes   []givenNodeJSON   `json:"nodes,omitempty" jsonschema:"first nodes of the conversation"`
	Options map[string]string `json:"options,omitempty" jsonschema:"options as JSON text, by plugin id"`
	Access  toolAccessJSON    `json:"access,omitzero"`

	Start    api.Start         `json:"start,omitempty" jsonschema:"content that the session starts with: current_session (that of the parent), existing_session (that of from) or snapshot; omitted: none. A fork starts with the session in the path"`
	From     events.SessionID  `json:"from,omitempty" jsonschema:"source session of start existing_session; with no other start"`
	Copy     *snapshotJSON     `json:"snapshot,omitempty" jsonschema:"content of start snapshot; with no other start"`
	Relation events.Relation   `json:"relation,omitempty" jsonschema:"relation to the parent; defaults to child"`
	Plugins  api.PluginSource  `json:"plugins,omitempty" jsonschema:"current_session_fork: plugins start with the parent's state and tools; omitted: without state. A session that starts with a conversation has the state and tools of that"`
	First    *givenMessageJSON `json:"first,omitempty" jsonschema:"input of the first turn, stored until a client takes it with POST first-input"`
	Subagent subagentJSON      `json:"subagent,omitzero"`
	Usage    string            `json:"usage,omitempty" jsonschema:"name of this session's usage in the parent's usage ledger; defaults to child"`
	Overlay  newOverlayJSON    `json:"overlay,omitzero" jsonschema:"on top of the tools and the prompt of the session's plugins, from its first turn on; omitted: that of the content that the session starts with"`
}

// newOverlayJSON names the overlay of a new session.
type newOverlayJSON struct {
	Tools         []api.OverlayTool  `json:"tools,omitempty" jsonschema:"each replaces the session's own tool of its name"`
	Contributions []contributionJSON `json:"contributions,omitempty" jsonschema:"contributions to the prompt of every turn"`
	WithoutBase   bool               `json:"without_base,omitempty" jsonschema:"true: the session's own tools are not offered"`
}

// snapshotJSON is a session's state in the form that clients store.
type snapshotJSON struct {
	Head     []byte   `json:"head"`
	Segments [][]byte `json:"segments,omitempty" jsonschema:"bodies of the snapshot; can be omitted while its session is there"`
}

// subagentJSON restricts a session that is the agent of another one.
type subagentJSON struct {
	Capability string `json:"capability"`
	Depth      int64  `json:"depth" jsonschema:"levels below the root session, whose child has 1"`
	MaxDepth   int64  `json:"max_depth"`
}

// toolAccessJSON restricts the tools of a session.
type toolAccessJSON struct {
	Tools  []string `json:"tools,omitempty" jsonschema:"names of the only tools that are offered; empty: all"`
	Hidden []string `json:"hidden,omitempty" jsonschema:"names of tools that are never offered, whatever tools says"`
}

// grantedJSON is a grant with its caller.
type grantedJSON struct {
	To     string                `json:"to"`
	Rights []events.SessionRight `json:"rights"`
}

// madeJSON is the id of a created resource.
type madeJSON struct {
	ID string `json:"id"`
}

// sessionJSON is the state of a session.
type sessionJSON struct {
	Session   events.SessionID  `json:"id"`
	Seq       events.Seq        `json:"seq" jsonschema:"of the last commit: a cursor"`
	Status    projector.Status  `json:"status"`
	Config    sessionConfigJSON `json:"config"`
	Parent    events.SessionID  `json:"parent,omitempty"`
	Forked    events.SessionID  `json:"forked_from,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty" jsonschema:"caller that owns the session; omitted: no owner, so only callers with access to every session have access"`
	Grants    []grantedJSON     `json:"grants" jsonschema:"rights of other callers, by caller"`
	Leaf      events.NodeID     `json:"leaf,omitempty" jsonschema:"last node of the active branch"`
	Frame     events.FrameID    `json:"frame,omitempty" from:"-"`
	Turns     int64             `json:"turns" jsonschema:"number of turns ever started"`
	Running   *runningTurnJSON  `json:"running,omitempty" from:"-"`
	Queue     []events.TurnID   `json:"queue" jsonschema:"ids of waiting turns, in order"`
	Inputs    []events.InputID  `json:"inputs" jsonschema:"ids of injected messages that no turn has taken, in order"`
	CreatedAt events.Millis     `json:"created_at_ms"`
	UpdatedAt events.Millis     `json:"updated_at_ms"`

	ToolSources []string        `json:"tool_sources,omitempty" jsonschema:"sources of tools, in the order in which they were added"`
	Extensions  []extensionJSON `json:"extensions,omitempty" jsonschema:"extensions of the protocol, in order"`

	Usage []sourceUsageJSON `json:"usage" from:"-" jsonschema:"the usage ledger, by source and model"`
}

// sourceUsageJSON is what a source of usage used of a model.
type sourceUsageJSON struct {
	Source string         `json:"source" jsonschema:"turn: the session's own turns; otherwise the source that a completion or a child session names: client and child by default"`
	Model  string         `json:"model"`
	Usage  api.TokenUsage `json:"usage"`
}

// runningTurnJSON is the turn that runs.
type runningTurnJSON struct {
	ID        events.TurnID `json:"id"`
	Iteration int64         `json:"iteration" jsonschema:"number of the model call, from 0"`
	Attempt   int64         `json:"attempt" jsonschema:"from 1; rises with each takeover"`
	Cancelled bool          `json:"cancelled" jsonschema:"true: a cancel was requested"`
	StartedAt events.Millis `json:"started_at_ms"`
}

// configChangeJSON changes a configuration; absent fields do not change.
type configChangeJSON struct {
	Provider        *string `json:"provider,omitempty"`
	Model           *string `json:"model,omitempty"`
	Effort          *string `json:"effort,omitempty"`
	MaxOutputTokens *int64  `json:"max_output_tokens,omitempty"`
	ContextWindow   *int64  `json:"context_window,omitempty"`
	MaxIterations   *int64  `json:"max_iterations,omitempty"`
	SilenceMillis   *int64  `json:"silence_ms,omitempty"`
	Protocol        *string `json:"protocol,omitempty"`
	Environment     *string `json:"environment,omitempty" jsonschema:"from the next turn on"`

	Instructions *string       `json:"instructions,omitempty"`
	Sampling     *samplingJSON `json:"sampling,omitempty" jsonschema:"replaces all sampling settings"`

	Layers *[]promptLayerJSON `json:"layers,omitempty" jsonschema:"replaces all layers"`

	Fallbacks *[]fallbackJSON `json:"fallbacks,omitempty" jsonschema:"replaces all fallbacks"`
}

func (out *sessionJSON) adjust(from any) {
	s := from.(*projector.State)
	out.Frame = s.Frame().ID
	if t := s.Turn(); t != nil {
		out.Running = shown(new(runningTurnJSON), t)
	}
	usage := s.Usage().Entries
	assign(&out.Usage, &usage)
}

func (in *configChangeJSON) apply(cfg events.Config) events.Config {
	assign(&cfg, in)
	return cfg
}

func (in *newSessionJSON) complete(c *httpRequest, to any) (err error) {
	args := to.(*api.CreateArgs)
	if args.Request.ID, err = idempotencyKey(c, "id", in.ID); err != nil {
		return err
	}
	switch {
	case c.session != "" && in.Start != "":
		return invalidField("start", "is not for forks, which begin with the session in the path")
	case in.From != "" && in.Start != api.StartExisting:
		return invalidField("from", "is allowed with start existing_session only")
	case (in.Copy != nil) != (in.Start == api.StartSnapshot):
		return invalidField("snapshot", "is required with start snapshot, and allowed only there")
	case in.Copy != nil:
		args.Head, args.Segments = in.Copy.Head, in.Copy.Segments
	}
	return nil
}

// getSnapshot responds with the session's state in the form that a new session starts from.
func getSnapshot(c *httpRequest) (reply, error) {
	s, err := c.s.cfg.Service.State(c.Context(), c.session)
	if err != nil {
		return reply{}, err
	}
	if size := s.FreshBytes(); size > smallBody {
		if err := memory.Take(c.Context(), copiesOfJSON*size); err != nil {
			return reply{}, err
		}
	}
	var head []byte
	var fresh []projector.Segment
	err = c.compute(func() error {
		head, fresh, err = s.Snapshot()
		return err
	})
	out := snapshotJSON{Head: head}
	for _, segment := range fresh {
		out.Segments = append(out.Segments, segment.Data)
	}
	return reply{status: http.StatusOK, body: out}, err
}

func configureSession(c *httpRequest, in configChangeJSON) (reply, error) {
	err := c.s.cfg.Service.Configure(c.Context(), c.session, api.ConfigureRequest{Change: in.apply})
	return reply{status: http.StatusNoContent}, err
}

// firstInputJSON is the first turn's input.
type firstInputJSON struct {
	Message *messageJSON `json:"message,omitempty" from:"." jsonschema:"omitted: there is none, or another request took it"`
}

// closeQuery has the reason of a close.
type closeQuery struct {
	Reason string `query:"reason"`
}
