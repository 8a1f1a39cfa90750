// Package setting has what the operator of a node says about the plugins that run as programs of their own.
package setting

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/pattern"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Plugin is what the operator says about a plugin.
type Plugin struct {
	Name string `json:"name"` // a token
	// Effects tighten what the plugin declares, by tool: "idempotent", or "non_idempotent", with which a call runs at
	// most once. A manifest that declares more than that of a tool is refused.
	Effects map[string]events.Effects `json:"effects,omitempty"`
	// Callbacks are the operations of the HTTP API that the plugin's calls may request, by their operationId, and
	// "ask" and "trace", with which they may ask people and write trace events, see [wire.AskPath] and [wire.TracePath].
	// Defaults to none.
	Callbacks []string `json:"callbacks,omitempty"`
	// ChangesOthers lets the plugin's hooks replace arguments and results of tools that are not its own, and the
	// instructions and the frame of sessions. The gate judges, and an approval shows, the arguments after all replacements.
	// Defaults to own tools only.
	ChangesOthers bool `json:"changes_others,omitempty"`
	// Tools are the names of the tools that the plugin may register, where * stands for any text. No other plugin
	// may register them, except one whose Tools has the name, too: of these, the first one has it. Defaults to all names
	// that are in no other plugin's Tools; the first plugin that registers such a name has it.
	Tools []string `json:"tools,omitempty"`
	// BySession leaves the plugin's tools out of sessions until a caller adds them, as a tool source of the plugin's name.
	// Its hooks run in all sessions. Defaults to false.
	BySession bool `json:"by_session,omitempty"`
	// Manifests are the hashes of the manifests that may register, see [wire.Manifest.Hash]. Defaults to any.
	Manifests []string `json:"manifests,omitempty"`
}

// NonIdempotent is the value of [Plugin.Effects] that stands for [events.EffectsNonIdempotent].
const NonIdempotent = "non_idempotent"

// toolPattern is the form of an entry of [Plugin.Tools].
var toolPattern = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_*-]{1,%d}$`, events.MaxTokenBytes))

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Validate checks the names and values. Errors: [*events.FieldError], whose fields begin with field.
func (s *Plugin) Validate(field string) error {
	if err := events.CheckToken(field+".name", s.Name); err != nil {
		return err
	}
	for _, tool := range slices.Sorted(maps.Keys(s.Effects)) {
		at := field + ".effects." + tool
		if err := events.CheckToken(at, tool); err != nil {
			return err
		}
		if _, known := freedom(s.Effects[tool]); !known {
			return &events.FieldError{Field: at, Reason: fmt.Sprintf("is %q, want none, idempotent or %s", s.Effects[tool], NonIdempotent), Err: events.ErrInvalid}
		}
	}
	for i, name := range s.Callbacks {
		if name != wire.AskOperation && name != wire.TraceOperation && !slices.ContainsFunc(operation.All(), func(r *operation.Row) bool { return r.Route != "" && Named([]string{name}, r) }) {
			return &events.FieldError{Field: fmt.Sprintf("%s.callbacks[%d]", field, i), Reason: fmt.Sprintf("is %q, which is no operation of the API", name), Err: events.ErrInvalid}
		}
	}
	for i, name := range s.Tools {
		if !toolPattern.MatchString(name) {
			return &events.FieldError{Field: fmt.Sprintf("%s.tools[%d]", field, i), Reason: fmt.Sprintf("is %q, want 1 to %d characters of A-Z a-z 0-9 _ - and *", name, events.MaxTokenBytes), Err: events.ErrInvalid}
		}
	}
	for i, h := range s.Manifests {
		if !hash.MatchString(h) {
			return &events.FieldError{Field: fmt.Sprintf("%s.manifests[%d]", field, i), Reason: "is no hash of a manifest: want 64 digits 0-9 a-f", Err: events.ErrInvalid}
		}
	}
	return nil
}

// Named reports whether a list of operations has an operation.
func Named(list []string, row *operation.Row) bool {
	return slices.Contains(list, row.ID) || row.Name != "" && slices.Contains(list, string(row.Name))
}

// Scope is the rights of the plugin's callbacks: to read, and what the operations that the operator lists need. So the content
// of a request, as options for plugins, needs an operation that configures in the list.
func (s *Plugin) Scope() api.Scope {
	rights := []string{string(api.RightRead)}
	for _, row := range operation.All() {
		need := row.Needs
		if need == api.RightGrant {
			need = api.RightConfigure
		}
		if need != "" && row.Route != "" && Named(s.Callbacks, row) && !slices.Contains(rights, string(need)) {
			rights = append(rights, string(need))
		}
	}
	return api.Scope(strings.Join(rights, ","))
}

// freedom orders effects: a tool with more of it may be called more often.
func freedom(e events.Effects) (rank int, known bool) {
	switch e {
	case events.EffectsNonIdempotent, NonIdempotent:
		return 0, true
	case events.EffectsIdempotent:
		return 1, true
	case events.EffectsNone:
		return 2, true
	}
	return 0, false
}

// EffectsOf are those of a tool: what its manifest declares, or what the operator says if that is stricter.
func (s *Plugin) EffectsOf(t *wire.Tool) events.Effects {
	said, ok := s.Effects[t.Name]
	declared, _ := freedom(t.Effects)
	if rank, _ := freedom(said); !ok || rank >= declared {
		return t.Effects
	}
	if said == NonIdempotent {
		return events.EffectsNonIdempotent
	}
	return said
}

// Admits reports whether a manifest may register.
func (s *Plugin) Admits(hash string) bool {
	return len(s.Manifests) == 0 || slices.Contains(s.Manifests, hash)
}

// Check refuses a manifest that the operator did not name, and one with a tool that the operator's effects would
// loosen.
func (s *Plugin) Check(m *wire.Manifest) error {
	if h := m.Hash(); !s.Admits(h) {
		return &wire.Error{Code: wire.CodeConflict, Field: "manifest", Message: fmt.Sprintf("its hash is %s, and the operator admits %s", h, strings.Join(s.Manifests, ", "))}
	}
	for i := range m.Tools {
		t := &m.Tools[i]
		said, ok := s.Effects[t.Name]
		declared, _ := freedom(t.Effects)
		if rank, _ := freedom(said); ok && rank > declared {
			return &wire.Error{
				Code: wire.CodeConflict, Field: fmt.Sprintf("manifest.tools[%d].effects", i),
				Message: fmt.Sprintf("the operator's settings loosen tool %s from %s to %s: they may only tighten it", t.Name, orNon(t.Effects), orNon(said)),
			}
		}
	}
	return nil
}

// Unknown are the tools in the operator's effects that are not among those that the plugin has.
func (s *Plugin) Unknown(has []string) (tools []string) {
	for _, tool := range slices.Sorted(maps.Keys(s.Effects)) {
		if !slices.Contains(has, tool) {
			tools = append(tools, tool)
		}
	}
	return tools
}

// Lists reports whether the operator lists a tool of the plugin.
func (s *Plugin) Lists(tool string) bool {
	return slices.ContainsFunc(s.Tools, func(name string) bool { return pattern.Match(name, tool, "") })
}

func orNon(e events.Effects) events.Effects { return cmp.Or(e, NonIdempotent) }
