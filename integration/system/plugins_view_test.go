package system

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestViewFollowsTheHistory changes a session's overlay, protocol options and tools, and reads its view at every
// sequence, over HTTP and on a host without its plugins: each view has the history up to there.
func TestViewFollowsTheHistory(t *testing.T) {
	t.Parallel()
	b, id, _ := setupOverlaid(t)
	d := b.ServeHTTP(httpapi.Config{})
	optionsFrom := []events.Seq{0, 0} // from where on there are such, and from where on others
	set := func(n int, options string) {
		runtest.WantError(t, "options", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(options), false), nil)
		optionsFrom[n] = b.LastSeq(id)
	}
	set(0, `{"a":1}`)
	runtest.WantError(t, "overlay", b.SetOverlay(b.Ctx, id, overlays()), nil)
	laid := b.LastSeq(id)
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"b"}, "off")
	runtest.WantError(t, "tools", err, nil)
	set(1, `{"a":2}`)
	runtest.WantError(t, "lift", b.SetOverlay(b.Ctx, id, plugin.Overlay{}), nil)
	lifted := b.LastSeq(id)
	reader := b.OtherHost()
	inspect := func(seq events.Seq, query string, v projector.ReadView) {
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
		var got httpbody.View
		runtest.WantError(t, "view", json.Unmarshal(d.Want(200, "GET", "/v1/sessions/"+string(id)+"/view"+query, "").Body, &got), nil)
		runtest.Equal(t, fmt.Sprintf("options at %d", seq), string(got.Standing.Options), want)
		runtest.Equal(t, fmt.Sprintf("options in Go at %d", seq), string(v.Frame.Options), want)
		var web, host []string
		if o := got.Standing.Overlay; o != nil {
			for _, tool := range o.Tools {
				web = append(web, tool.Name)
			}
			runtest.Equal(t, "contribution", o.Contributions[0].Content, "Prefer extra tools.")
		}
		for _, tool := range v.Standing.Overlay.Tools {
			host = append(host, tool.Name)
		}
		runtest.EqualLists(t, fmt.Sprintf("overlay at %d", seq), web, over)
		runtest.EqualLists(t, fmt.Sprintf("overlay in Go at %d", seq), host, over)
		runtest.Equal(t, fmt.Sprintf("tools at %d", seq), len(got.Standing.Tools.Tools), len(v.Standing.Catalog.Tools))
		runtest.Equal(t, fmt.Sprintf("their generation at %d", seq), got.Standing.Tools.Generation, v.Standing.Catalog.Generation)
	}
	for seq := events.Seq(1); seq <= lifted; seq++ {
		v, err := reader.ViewAt(b.Ctx, id, seq)
		runtest.WantError(t, "view at", err, nil)
		inspect(seq, fmt.Sprintf("?at=%d", seq), v)
	}
	v, err := reader.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	inspect(lifted, "", v)
	runtest.Equal(t, "a tool that is off", v.Standing.Catalog.Tools[1].Override, "off")
}
