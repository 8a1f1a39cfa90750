package result

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestOutcomeBounds generates outcomes of hostile instances: numbers, sizes and types of attachments, within and beyond the
// limits. An outcome is accepted if all are within, and refused with the field that is not.
func TestOutcomeBounds(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("a", 64)
	large, some := make([]byte, 5<<20+1), make([]byte, 4<<20)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 300), rapid.SampledFrom([]int{255, 256, 257, 100000})).Draw(t, "attachments")
		o := &wire.Outcome{Attachments: slices.Repeat([]wire.Attachment{{MediaType: "image/png", Data: []byte{1}}}, n)}
		want := ""
		if n > 256 {
			want = "attachments: are"
		}
		if n > 6 && n <= 256 {
			at := rapid.IntRange(5, n-1).Draw(t, "at")
			switch rapid.SampledFrom([]string{"", "empty", "large", "together", "type", "no type", "reference", "both", "digest", "size"}).Draw(t, "fault") {
			case "empty":
				o.Attachments[at].Data, want = nil, fmt.Sprintf("attachments[%d].data", at)
			case "large":
				o.Attachments[at].Data, want = large, fmt.Sprintf("attachments[%d].data", at)
			case "together":
				for i := range 6 {
					o.Attachments[i].Data = some
				}
				want = "attachments: have more than"
			case "reference":
				o.Attachments[at] = wire.Attachment{MediaType: "image/png", Digest: digest, Size: 1}
			case "both":
				o.Attachments[at].Digest, o.Attachments[at].Size, want = digest, 1, fmt.Sprintf("attachments[%d].data", at)
			case "digest":
				o.Attachments[at] = wire.Attachment{MediaType: "image/png", Digest: digest[1:], Size: 1}
				want = fmt.Sprintf("attachments[%d].digest", at)
			case "size":
				o.Attachments[at] = wire.Attachment{MediaType: "image/png", Digest: digest, Size: -1}
				want = fmt.Sprintf("attachments[%d].size", at)
			case "type":
				o.Attachments[at].MediaType, want = "text/html\r\nX: y", fmt.Sprintf("attachments[%d].media_type", at)
			case "no type":
				o.Attachments[at].MediaType, want = "", fmt.Sprintf("attachments[%d].media_type", at)
			}
		}
		err := Check(o)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("%d attachments: got %v, want %q", n, err, want)
		}
	})
}
