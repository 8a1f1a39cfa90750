package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/session/plugin/wire"
)

// checkOwners refuses a manifest with a tool that the operator's lists give to another plugin, or not to this one.
func (r *Registry) checkOwners(name string, m *wire.Manifest) error {
	own := &r.byName[name].settings
	for i := range m.Tools {
		tool := m.Tools[i].Name
		if own.Lists(tool) {
			continue
		}
		refused := &wire.Error{Code: wire.CodeForbidden, Field: fmt.Sprintf("manifest.tools[%d].name", i)}
		at := slices.IndexFunc(r.names, func(other string) bool { return r.byName[other].settings.Lists(tool) })
		switch {
		case at >= 0:
			refused.Message = fmt.Sprintf("the operator's settings give tool %s to plugin %s", tool, r.names[at])
		case len(own.Tools) > 0:
			refused.Message = fmt.Sprintf("the operator's settings do not list tool %s: the plugin may register %s", tool, strings.Join(own.Tools, ", "))
		default:
			continue
		}
		return refused
	}
	return nil
}
