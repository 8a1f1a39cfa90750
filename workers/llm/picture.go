package llm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/gif" // decoded where they are too large
	"image/jpeg"
	"image/png"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Limits of attachments, below those of all APIs that have one.
const (
	maxPicture     = 5<<20 - 4<<10 // bytes in base64, of one
	maxAttachments = 16 << 20      // bytes in base64, of all of a request, which has text too
	maxCount       = 90            // attachments of a request
	maxPixels      = 50 << 20      // of a picture that is decoded, to scale it
	edge           = 1568          // pixels of the longer edge of a scaled picture: models scale larger ones themselves
	maxEdge        = 8000          // pixels of an edge
	maxEdgeOfMany  = 2000          // pixels of an edge in a request of more than many attachments
	many           = 20
	maxScaled      = 64 // pictures that are kept
)

// attached puts the attachments of messages in the form that APIs take: as a URL, or in base64, as the kind that its bytes
// are, and below the limits. A text takes the place of any other. The newest ones stay.
func (e *Endpoint) attached(messages []events.Message) []events.Message {
	bytes, count, limit := 0, 0, maxEdge
	if _, n := WithoutAttachments(messages, isAttachment); n > many {
		limit = maxEdgeOfMany
	}
	return replaced(messages, func(p events.Part) events.Part {
		if p = e.attachment(p, limit); !isAttachment(p) {
			return p
		}
		if count == maxCount || bytes+len(p.Text) > maxAttachments {
			return leftOut(p, fmt.Sprintf("a request has at most %d attachments, of %d bytes together", maxCount, maxAttachments))
		}
		count, bytes = count+1, bytes+len(p.Text)
		return p
	})
}

// replaced are messages with other parts in place of their attachments, of which the last one is the first that by gets. The
// input is not changed.
func replaced(messages []events.Message, by func(events.Part) events.Part) []events.Message {
	out := slices.Clone(messages)
	for i, m := range slices.Backward(out) {
		if !slices.ContainsFunc(m.Parts, isAttachment) {
			continue
		}
		out[i].Parts = slices.Clone(m.Parts)
		for j, p := range slices.Backward(out[i].Parts) {
			if isAttachment(p) {
				out[i].Parts[j] = by(p)
			}
		}
	}
	return out
}

func isAttachment(p events.Part) bool { return p.Kind == events.PartAttachment }

// leftOut is the text in place of an attachment.
func leftOut(p events.Part, why string) events.Part {
	return events.Part{Kind: events.PartText, Text: fmt.Sprintf("[an attachment of type %q is left out: %s]", p.MediaType, why)}
}

// Bytes returns the bytes of an attachment, whose text is base64, a data URL or the bytes themselves, and their media type. It is false for
// other URLs, and for other parts.
func Bytes(p events.Part) (media string, data []byte, ok bool) {
	if !isAttachment(p) || isURL(p.Text) {
		return p.MediaType, nil, false
	}
	data = []byte(p.Text)
	if rest, ok := strings.CutPrefix(p.Text, "data:"); ok {
		media, encoded, _ := strings.Cut(rest, ",")
		media, base := strings.CutSuffix(media, ";base64")
		p.MediaType, data = media, []byte(encoded)
		if plain, err := url.PathUnescape(encoded); err == nil && !base {
			data = []byte(plain)
		}
	}
	if plain, err := fromBase64(data); err == nil {
		data = plain
	}
	if kind := http.DetectContentType(data); kind == "application/pdf" || strings.HasPrefix(kind, "image/") {
		p.MediaType = kind
	}
	return p.MediaType, data, true
}

// attachment is one attachment by itself, whose edges have at most limit pixels.
func (e *Endpoint) attachment(p events.Part, limit int) events.Part {
	media, data, ok := Bytes(p)
	if !ok {
		return p
	}
	p.MediaType, p.Text = media, base64.StdEncoding.EncodeToString(data)
	switch {
	case len(data) == 0:
		return leftOut(p, "it is empty")
	case !strings.HasPrefix(p.MediaType, "image/"):
	case len(p.Text) > maxPicture, longer(data) > limit:
		return cached(e.scaled, sha256.Sum256(data), func() events.Part { return shrink(p, data) })
	}
	return p
}

// longer is the longer edge of a picture, in pixels; 0 if it cannot be decoded.
func longer(data []byte) int {
	cfg, _, _ := image.DecodeConfig(bytes.NewReader(data)) // empty with an error
	return max(cfg.Width, cfg.Height)
}

func isURL(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }

// standard makes base64 of any alphabet, in lines, that of the standard.
var standard = strings.NewReplacer("\n", "", "\r", "", " ", "", "\t", "", "-", "+", "_", "/") //nolint:gochecknoglobals // a table that is only read

// fromBase64 decodes base64 of any alphabet, with or without padding and line ends. The bytes of a picture are no base64.
func fromBase64(data []byte) ([]byte, error) {
	if plain, err := base64.StdEncoding.DecodeString(string(data)); err == nil {
		return plain, nil
	}
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(standard.Replace(string(data)), "="))
}

// shrink makes a picture smaller than the limit, or a text in its place.
func shrink(p events.Part, data []byte) events.Part {
	large := fmt.Sprintf("it has %d bytes in base64, limit is %d, and %d pixels at its longer edge", len(p.Text), maxPicture, longer(data))
	cfg, _, _ := image.DecodeConfig(bytes.NewReader(data)) // what is no picture fails below
	if cfg.Width*cfg.Height > maxPixels {
		return leftOut(p, large)
	}
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return leftOut(p, large)
	}
	picture = scaledTo(picture, edge)
	var out bytes.Buffer
	if p.MediaType = "image/png"; png.Encode(&out, picture) != nil || base64.StdEncoding.EncodedLen(out.Len()) > maxPicture {
		out.Reset()
		p.MediaType, _ = "image/jpeg", jpeg.Encode(&out, picture, nil) // of this size it can be encoded
	}
	p.Text = base64.StdEncoding.EncodeToString(out.Bytes())
	return p
}

// scaledTo is a picture whose longer edge has at most so many pixels, each of which is the mean of those in its place.
func scaledTo(from image.Image, most int) image.Image {
	b := from.Bounds()
	w, h := b.Dx(), b.Dy()
	long := max(w, h)
	if long <= most {
		return from
	}
	src := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(src, src.Bounds(), from, b.Min, draw.Src)
	to := image.NewRGBA(image.Rect(0, 0, max(w*most/long, 1), max(h*most/long, 1)))
	tw, th := to.Rect.Dx(), to.Rect.Dy()
	for i := range tw * th {
		x, y := i%tw, i/tw
		r := image.Rect(x*w/tw, y*h/th, (x+1)*w/tw, (y+1)*h/th)
		var sum [4]int
		for row := r.Min.Y; row < r.Max.Y; row++ {
			for i, v := range src.Pix[src.PixOffset(r.Min.X, row):src.PixOffset(r.Max.X, row)] {
				sum[i%4] += int(v)
			}
		}
		n := max(r.Dx()*r.Dy(), 1)
		to.SetRGBA(x, y, color.RGBA{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n), uint8(sum[3] / n)}) //nolint:gosec // a mean of bytes
	}
	return to
}

// OfAttachment reports whether a refusal may be because of a picture or another attachment of the request: it names one,
// or refuses the form of the request, in the words of endpoints that know text alone.
func (e *Error) OfAttachment() bool {
	switch {
	case e.Kind == KindAuth, e.Kind == KindRateLimit, e.Kind == KindTransport, e.Kind == KindMalformed:
		return false
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnsupportedMediaType, e.Status == http.StatusUnprocessableEntity, e.Status == http.StatusRequestEntityTooLarge:
		return e.Kind != KindOverflow || e.Status == http.StatusRequestEntityTooLarge
	}
	text := strings.ToLower(e.Code + " " + e.Message)
	return slices.ContainsFunc([]string{
		"image", "picture", "photo", "vision", "multimodal", "multi-modal", "attachment", "media type", "media_type", "mime", "document", "pdf", "base64", "input_file",
	}, func(word string) bool { return strings.Contains(text, word) })
}

// WithoutAttachments are messages with a text in place of each attachment that was refused. It returns their number. The
// input is not changed.
func WithoutAttachments(messages []events.Message, refused func(events.Part) bool) (list []events.Message, n int) {
	list = replaced(messages, func(p events.Part) events.Part {
		if !refused(p) {
			return p
		}
		n++
		return leftOut(p, "the model's endpoint refused it")
	})
	return list, n
}

// URLOf is an attachment as a URL: its own, or one of its data.
func URLOf(p events.Part) string {
	if isURL(p.Text) {
		return p.Text
	}
	return "data:" + p.MediaType + ";base64," + p.Text
}

// Shown is the text of a part, or one in place of an attachment that the API does not take.
func Shown(p events.Part) string {
	if isAttachment(p) {
		return fmt.Sprintf("[an attachment of type %q, which cannot be shown here]", p.MediaType)
	}
	return p.Text
}
