// Package toolsearch lets the model find tools that its prompt does not list: those of the level searchable. The tool
// search_tools ranks the session's catalogue by the words of a query. The tools that it finds can be called from the
// next model call on.
//
// Guarantees: a search never finds a tool that is off. Other tools do not change. A tool that a host set to
// searchable stays searchable. Found tools are recorded with the result, both or neither, and stay found in the
// session. The package imports session/plugin and events.
package toolsearch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "tool_search"

// Limits of a search.
const (
	defaultLimit  = 5
	maxLimit      = 20
	maxQueryBytes = 400
)

// Factory builds the plugin.
func Factory() plugin.Factory {
	return plugin.New(ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &search{}, nil })
}

// search has the names of the found tools, sorted.
type search struct{ plugin.State[[]string] }

func (s *search) Register(r *plugin.Registrar) error {
	r.Catalog(s.lift)
	plugin.AddTool(r, plugin.Tool{
		Name: "search_tools", Effects: events.EffectsIdempotent,
		Description: "Looks for further tools by words of their names, namespaces and descriptions. What it finds can be called from then on.",
		Examples:    []json.RawMessage{json.RawMessage(`{"query":"send mail"}`)},
	}, s.find)
	return nil
}

// lift makes found tools callable, unless their level is not searchable any more.
func (s *search) lift(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
	levels := make(map[string]events.Availability)
	found := s.Load()
	for i := range in.Tools {
		if t := &in.Tools[i]; t.Availability == events.AvailSearchable && slices.Contains(found, t.Name) {
			levels[t.Name] = events.AvailCallable
		}
	}
	return plugin.CatalogContribution{Levels: levels}, nil
}

// queryArgs is the arguments of the tool search_tools.
type queryArgs struct {
	Query string `json:"query" jsonschema:"words, in any order"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many tools at most: 1 to 20, 5 where it is left out"`
}

// foundTool is a tool that a search found.
type foundTool struct {
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON schema of its arguments
	Callable    bool            `json:"callable"`         // false: a host forbids its calls
}

func (s *search) find(ctx context.Context, call plugin.Call, in queryArgs) ([]foundTool, error) {
	limit := cmp.Or(in.Limit, defaultLimit)
	words := strings.Fields(strings.ToLower(in.Query))
	switch {
	case len(words) == 0, len(in.Query) > maxQueryBytes:
		return nil, plugin.InvalidArgs("query has %d bytes, want a word, and at most %d bytes", len(in.Query), maxQueryBytes)
	case limit < 1 || limit > maxLimit:
		return nil, plugin.InvalidArgs("limit is %d, want 1 to %d", limit, maxLimit)
	}
	state, err := call.Host.SnapshotCurrent(ctx)
	if err != nil {
		return nil, err
	}
	list, fresh := []foundTool{}, []string{}
	for _, t := range rank(state.Catalog.Tools, words, limit) {
		lifted := t.Override == "" && t.Availability == events.AvailSearchable
		list = append(list, foundTool{Name: t.Name, Namespace: t.Namespace, Description: t.Description, Schema: t.Look().Schema, Callable: lifted || t.Callable()})
		if lifted {
			fresh = append(fresh, t.Name)
		}
	}
	if len(fresh) > 0 {
		s.Update(func(found *[]string) { // searches may be concurrent
			all := slices.Concat(*found, fresh)
			slices.Sort(all)
			*found = slices.Compact(all)
		})
	}
	return list, nil
}

// rank returns the tools that match lower-case words, the best first, equal ones by name. It leaves out tools that
// are off, and tools that match no word.
func rank(tools []events.ToolEntry, words []string, limit int) []events.ToolEntry {
	type ranked struct {
		tool  *events.ToolEntry
		score int
	}
	var list []ranked
	for i := range tools {
		t := &tools[i]
		if score := scoreOf(t, words); score > 0 && t.Effective().Rank() >= events.AvailSearchable.Rank() {
			list = append(list, ranked{t, score})
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.tool.Name, b.tool.Name))
	})
	var out []events.ToolEntry
	for _, r := range list[:min(limit, len(list))] {
		out = append(out, *r.tool)
	}
	return out
}

// Scores of a word, by where it occurs.
const (
	wholeMatch = 8 // the name, or an alias
	inName     = 4 // part of one
	inSpace    = 2
	inText     = 1
)

func scoreOf(t *events.ToolEntry, words []string) int {
	names := []string{strings.ToLower(t.Name)}
	for _, alias := range t.Aliases {
		names = append(names, strings.ToLower(alias))
	}
	space, text, score := strings.ToLower(t.Namespace), strings.ToLower(t.Description), 0
	for _, w := range words {
		switch {
		case slices.Contains(names, w):
			score += wholeMatch
		case slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, w) }):
			score += inName
		case strings.Contains(space, w):
			score += inSpace
		case strings.Contains(text, w):
			score += inText
		}
	}
	return score
}
