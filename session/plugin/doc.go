// Package plugin is what authors of tools import. It owns tools, their
// declarations and their typed registration, and imports events only.
//
//	tools := plugin.NewTools()
//	plugin.AddTool(tools, plugin.Tool{Name: "add", Effects: events.EffectsNone},
//		func(ctx context.Context, call plugin.Call, in struct{ A, B int }) (int, error) {
//			return in.A + in.B, nil
//		})
package plugin
