package external

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
	// "ask", with which they may ask people, see [wire.AskPath]. Defaults to none.
	Callbacks []string `json:"callbacks,omitempty"`
	// ChangesOthers lets the plugin's hooks replace arguments and results of tools that are not its own. The gate judges,
	// and an approval shows, the arguments after all replacements. Defaults to own tools only.
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

// nonIdempotent is the value of [Plugin.Effects] that stands for [events.EffectsNonIdempotent].
const nonIdempotent = "non_idempotent"

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
			return &events.FieldError{Field: at, Reason: fmt.Sprintf("is %q, want none, idempotent or %s", s.Effects[tool], nonIdempotent), Err: events.ErrInvalid}
		}
	}
	for i, name := range s.Callbacks {
		if name != wire.AskOperation && !slices.ContainsFunc(operation.All(), func(r *operation.Row) bool { return r.Route != "" && named([]string{name}, r) }) {
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

// named reports whether a list of operations has an operation.
func named(list []string, row *operation.Row) bool {
	return slices.Contains(list, row.ID) || row.Name != "" && slices.Contains(list, string(row.Name))
}

// scope is the rights of the plugin's callbacks: to read, and what the operations that the operator lists need. So the content
// of a request, as options for plugins, needs an operation that configures in the list.
func (s *Plugin) scope() api.Scope {
	rights := []string{string(api.RightRead)}
	for _, row := range operation.All() {
		need := row.Needs
		if need == api.RightGrant {
			need = api.RightConfigure
		}
		if need != "" && row.Route != "" && named(s.Callbacks, row) && !slices.Contains(rights, string(need)) {
			rights = append(rights, string(need))
		}
	}
	return api.Scope(strings.Join(rights, ","))
}

// freedom orders effects: a tool with more of it may be called more often.
func freedom(e events.Effects) (rank int, known bool) {
	switch e {
	case events.EffectsNonIdempotent, nonIdempotent:
		return 0, true
	case events.EffectsIdempotent:
		return 1, true
	case events.EffectsNone:
		return 2, true
	}
	return 0, false
}

// effects are those of a tool: what its manifest declares, or what the operator says if that is stricter.
func (s *Plugin) effects(t *wire.Tool) events.Effects {
	said, ok := s.Effects[t.Name]
	declared, _ := freedom(t.Effects)
	if rank, _ := freedom(said); !ok || rank >= declared {
		return t.Effects
	}
	if said == nonIdempotent {
		return events.EffectsNonIdempotent
	}
	return said
}

// admits reports whether a manifest may register.
func (s *Plugin) admits(hash string) bool {
	return len(s.Manifests) == 0 || slices.Contains(s.Manifests, hash)
}

// check refuses a manifest that the operator did not name, and one with a tool that the operator's effects would
// loosen.
func (s *Plugin) check(m *wire.Manifest) error {
	if h := m.Hash(); !s.admits(h) {
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

// unknown are the tools in the operator's effects that are not among those that the plugin has.
func (s *Plugin) unknown(has []string) (tools []string) {
	for _, tool := range slices.Sorted(maps.Keys(s.Effects)) {
		if !slices.Contains(has, tool) {
			tools = append(tools, tool)
		}
	}
	return tools
}

// lists reports whether the operator lists a tool of the plugin.
func (s *Plugin) lists(tool string) bool {
	return slices.ContainsFunc(s.Tools, func(name string) bool { return pattern.Match(name, tool, "") })
}

// checkOwners refuses a manifest with a tool that the operator's lists give to another plugin, or not to this one.
func (p *Plugins) checkOwners(name string, m *wire.Manifest) error {
	own := &p.byName[name].settings
	for i := range m.Tools {
		tool := m.Tools[i].Name
		if own.lists(tool) {
			continue
		}
		refused := &wire.Error{Code: wire.CodeForbidden, Field: fmt.Sprintf("manifest.tools[%d].name", i)}
		at := slices.IndexFunc(p.names, func(other string) bool { return p.byName[other].settings.lists(tool) })
		switch {
		case at >= 0:
			refused.Message = fmt.Sprintf("the operator's settings give tool %s to plugin %s", tool, p.names[at])
		case len(own.Tools) > 0:
			refused.Message = fmt.Sprintf("the operator's settings do not list tool %s: the plugin may register %s", tool, strings.Join(own.Tools, ", "))
		default:
			continue
		}
		return refused
	}
	return nil
}

func orNon(e events.Effects) events.Effects { return cmp.Or(e, nonIdempotent) }

// Lacks says what the plugins cannot do yet, a line for each plugin without a manifest or without an instance that
// lives, and for each tool of the settings that no manifest has. It is empty if there is nothing.
func (p *Plugins) Lacks() (lines []string) {
	for _, s := range p.Status() {
		switch alive := slices.ContainsFunc(s.Instances, func(i api.PluginInstance) bool { return i.Current }); {
		case s.Version == "":
			lines = append(lines, fmt.Sprintf("plugin %s: no manifest is registered: sessions do not have its tools", s.Name))
			continue
		case !alive:
			lines = append(lines, fmt.Sprintf("plugin %s: no instance lives: its calls fail as unavailable", s.Name))
		}
		for _, tool := range p.byName[s.Name].settings.unknown(s.Tools) {
			lines = append(lines, fmt.Sprintf("plugin %s: the settings name its tool %s, which it does not have", s.Name, tool))
		}
	}
	return lines
}
