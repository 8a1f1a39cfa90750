package integration

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestViewShowsWhatStands changes a session's overlay, protocol options and tools, and looks at it at every sequence,
// over HTTP and on a host without its plugins: each shows what the history has up to there.
func TestViewShowsWhatStands(t *testing.T) {
	t.Parallel()
	b, id, _ := setupOverlaid(t)
	d := b.door(httpapi.Config{})
	optionsFrom := []events.Seq{0, 0} // from where on there are such, and from where on others
	set := func(n int, options string) {
		must(t, "options", b.SetProtocolOptions(b.ctx, id, json.RawMessage(options), false), nil)
		optionsFrom[n] = b.last(id)
	}
	set(0, `{"a":1}`)
	must(t, "overlay", b.SetOverlay(b.ctx, id, overlays()), nil)
	laid := b.last(id)
	_, err := b.SetToolsAvailability(b.ctx, id, []string{"b"}, "off")
	must(t, "tools", err, nil)
	set(1, `{"a":2}`)
	must(t, "lift", b.SetOverlay(b.ctx, id, plugin.Overlay{}), nil)
	lifted := b.last(id)
	reader := b.otherHost()
	look := func(seq events.Seq, query string, v projector.ReadView) {
		t.Helper()
		want := ""
		if seq >= optionsFrom[0] {
			want = `{"a":1}`
		}
		if seq >= optionsFrom[1] {
			want = `{"a":2}`
		}
		var over []string
		if seq >= laid && seq < lifted {
			over = []string{"a", "extra"}
		}
		var got httpapi.View
		must(t, "view", json.Unmarshal(d.want(200, "GET", "/v1/sessions/"+string(id)+"/view"+query, "").body, &got), nil)
		equal(t, fmt.Sprintf("options at %d", seq), string(got.Standing.Options), want)
		equal(t, fmt.Sprintf("options in Go at %d", seq), string(v.Frame.Options), want)
		var web, host []string
		if o := got.Standing.Overlay; o != nil {
			for _, tool := range o.Tools {
				web = append(web, tool.Name)
			}
			equal(t, "contribution", o.Contributions[0].Content, "Prefer extra tools.")
		}
		for _, tool := range v.Standing.Overlay.Tools {
			host = append(host, tool.Name)
		}
		equalLists(t, fmt.Sprintf("overlay at %d", seq), web, over)
		equalLists(t, fmt.Sprintf("overlay in Go at %d", seq), host, over)
		equal(t, fmt.Sprintf("tools at %d", seq), len(got.Standing.Tools.Tools), len(v.Standing.Catalog.Tools))
		equal(t, fmt.Sprintf("their generation at %d", seq), got.Standing.Tools.Generation, v.Standing.Catalog.Generation)
	}
	for seq := events.Seq(1); seq <= lifted; seq++ {
		v, err := reader.ViewAt(b.ctx, id, seq)
		must(t, "view at", err, nil)
		look(seq, fmt.Sprintf("?at=%d", seq), v)
	}
	v, err := reader.View(b.ctx, id)
	must(t, "view", err, nil)
	look(lifted, "", v)
	equal(t, "a tool that is off", v.Standing.Catalog.Tools[1].Override, "off")
}
