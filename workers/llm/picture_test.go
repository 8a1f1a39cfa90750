package llm_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// sentAs is what becomes of an attachment in a request.
func sentAs(t *testing.T, media, text string) events.Part {
	t.Helper()
	got, err := llm.Dialog([]events.Message{say(events.RoleUser, events.Part{Kind: events.PartAttachment, MediaType: media, Text: text})})
	if err != nil || len(got) != 1 || len(got[0].Parts) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	return got[0].Parts[0]
}

// pictures are the same picture in each format, as bytes.
func pictures(t *testing.T) map[string]string {
	t.Helper()
	p := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	list := map[string]string{"application/pdf": "%PDF-1.7\n", "image/webp": "RIFF\x24\x00\x00\x00WEBPVP8 "}
	var b bytes.Buffer
	runtest.NoError(t, png.Encode(&b, p))
	list["image/png"] = b.String()
	b.Reset()
	runtest.NoError(t, jpeg.Encode(&b, p, nil))
	list["image/jpeg"] = b.String()
	b.Reset()
	runtest.NoError(t, gif.Encode(&b, p, nil))
	list["image/gif"] = b.String()
	return list
}

// TestPictureKind: a picture is sent as the kind that its bytes are, in base64, whatever it is called and however it is
// stored.
func TestPictureKind(t *testing.T) {
	t.Parallel()
	for kind, data := range pictures(t) {
		want := base64.StdEncoding.EncodeToString([]byte(data))
		for form, text := range map[string]string{
			"bytes": data, "base64": want, "url_alphabet": base64.RawURLEncoding.EncodeToString([]byte(data)), "lines": want[:8] + "\r\n" + want[8:],
			"data_url": "data:image/bmp;base64," + want, "data_url_of_bytes": "data:," + strings.ReplaceAll(data, "%", "%25"),
		} {
			for _, called := range []string{"image/jpeg", "image/x-unknown", "", "application/octet-stream"} {
				if got := sentAs(t, called, text); got.Kind != events.PartAttachment || got.MediaType != kind || got.Text != want {
					t.Errorf("%s called %q as %s: got %q, %.40q", kind, called, form, got.MediaType, got.Text)
				}
			}
		}
	}
	if got := sentAs(t, "image/png", "https://host/a"); got.Text != "https://host/a" || got.MediaType != "image/png" {
		t.Errorf("URL: got %+v", got)
	}
}

// TestLargePictures are scaled, or a text says why they are left out.
func TestLargePictures(t *testing.T) {
	t.Parallel()
	noise, random := image.NewRGBA(image.Rect(0, 0, 2000, 1000)), rand.New(rand.NewPCG(1, 2))
	for i := range noise.Pix {
		noise.Pix[i] = byte(random.Uint32())
	}
	var b bytes.Buffer
	runtest.NoError(t, png.Encode(&b, noise))
	got := sentAs(t, "image/png", b.String())
	data, err := base64.StdEncoding.DecodeString(got.Text)
	if err != nil || len(got.Text) >= 5<<20 {
		t.Fatalf("got %d bytes, %v, want less than 5 MiB of base64", len(got.Text), err)
	}
	cfg, kind, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || cfg.Width != 1568 || cfg.Height != 784 || got.MediaType != "image/"+kind {
		t.Errorf("got %+v of kind %s called %s, %v, want 1568 by 784", cfg, kind, got.MediaType, err)
	}
	broken := sentAs(t, "image/png", strings.Repeat("iVBORw0KGgoA", 700_000))
	if broken.Kind != events.PartText || !strings.Contains(broken.Text, "8400000 bytes in base64, limit is") {
		t.Errorf("a broken one: got %.200q", broken.Text)
	}
}

// TestPicturesWithLongEdges: an edge that endpoints refuse is made shorter, and a shorter one where a request has many.
func TestPicturesWithLongEdges(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	for wide, most := range map[int][2]int{9000: {1568, 1568}, 3000: {3000, 1568}, 100: {100, 100}} {
		b.Reset()
		runtest.NoError(t, png.Encode(&b, image.NewPaletted(image.Rect(0, 0, wide, 10), color.Palette{color.Black, color.White})))
		for i, n := range []int{1, 21} {
			parts := make([]events.Part, n)
			for j := range parts {
				parts[j] = events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: b.String()}
			}
			got, err := llm.Dialog([]events.Message{say(events.RoleUser, parts...)})
			runtest.NoError(t, err)
			data, _ := base64.StdEncoding.DecodeString(got[0].Parts[0].Text)
			if cfg, _, err := image.DecodeConfig(bytes.NewReader(data)); err != nil || cfg.Width != most[i] {
				t.Errorf("%d of %d pixels: got %d and %v, want %d", n, wide, cfg.Width, err, most[i])
			}
		}
	}
}

// TestManyPictures: the newest stay, below the limits of a request.
func TestManyPictures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ count, size, stay int }{"number": {100, 1000, 90}, "bytes": {8, 3 << 20, 5}} {
		var history []events.Message
		for range c.count {
			history = append(history, say(events.RoleUser, events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: strings.Repeat("iVBORw0KGgoA", c.size/12)}))
		}
		got, err := llm.Dialog(history)
		runtest.NoError(t, err)
		parts, stay := got[0].Parts, 0
		for i, p := range parts {
			if p.Kind == events.PartAttachment {
				stay++
			} else if i >= len(parts)-c.stay || !strings.Contains(p.Text, "a request has at most 90 attachments, of 16777216 bytes together") {
				t.Errorf("%s: part %d of %d is %.100q", name, i, len(parts), p.Text)
			}
		}
		if len(parts) != c.count || stay < c.stay || stay > c.stay+1 {
			t.Errorf("%s: %d of %d stay, want %d", name, stay, len(parts), c.stay)
		}
	}
}
