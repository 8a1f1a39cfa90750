package catalogue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func bodyEntries() []entry {
	return []entry{
		{"P33", "code returns pictures and takes them", "tools that draw and measure, a picture of the user", "a program that shows one and passes one on, killed before its end", "the model sees it with the output; the tool reads the bytes", testCodePictures},
		{"X24", "a result names a stored body", "a tool that stores bytes twice and is killed", "a run after the takeover", "stored once, kept by the sweep before the result, shown to the model", testStoredBody},
		{"X25", "bodies of other sessions are unknown", "a digest of another session, and wrong sizes", "read, attachment, picture of a program", "refused; the session does not know the digest", testForeignBody},
	}
}

// picture is a PNG of a width, as its bytes.
func picture(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	runtest.WantError(t, "picture", png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 1))), nil)
	return b.Bytes()
}

func refTo(body []byte) events.BlobRef {
	sum := sha256.Sum256(body)
	return events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

// shown are the bytes of the attachments in a request to the model.
func shown(b *harness.System, request int) (list []string) {
	b.T.Helper()
	for _, m := range b.Model.Requests()[request].Messages {
		for _, p := range m.Parts {
			if media, data, ok := llm.Bytes(p); ok {
				list = append(list, media+" "+refTo(data).Digest)
			}
		}
	}
	return list
}

func testCodePictures(t *testing.T) {
	drawn, given := picture(t, 7), picture(t, 9)
	held := make(chan struct{}, 1)
	b := harness.StartIdle(t,
		harness.Program("r = with_attachments(draw)\nshow(r[\"attachments\"][0])\nprint(r[\"value\"], measure(picture=r[\"attachments\"][0]))\nlast = attachments()[0]\nhold()"),
		harness.Program("print(measure(picture=last))\nshow(last)\nshow(1)"),
		harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	plugin.AddTool(b.Tools, plugin.Tool{Name: "draw"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
		c.Add("draw")
		return plugin.Result{Text: "drawn", Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Text: base64.StdEncoding.EncodeToString(drawn)}}}, nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "hold", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		if c.Add("hold") > 1 {
			return "", nil
		}
		held <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "measure", Effects: events.EffectsNone}, func(ctx context.Context, call plugin.Call, in struct {
		Picture struct {
			MediaType string `json:"media_type"`
			Digest    string `json:"digest"`
			Size      int64  `json:"size"`
		} `json:"picture"`
	},
	) (string, error) {
		body, err := call.Host.ReadBody(ctx, in.Picture.Digest)
		if err != nil {
			return "", err
		}
		cfg, kind, err := image.DecodeConfig(bytes.NewReader(body))
		return fmt.Sprint(kind, " ", cfg.Width, " ", in.Picture.MediaType, " ", in.Picture.Size == int64(len(body))), err
	})
	kill := b.StartCodeNode(bustest.Open(t, b.Server))
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"), events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: base64.StdEncoding.EncodeToString(given)})
	harness.Receive(b, "the program", held)
	kill()
	b.StartCodeNode(b.Bus)
	b.AwaitTurn(id, "t1")
	outputs := b.Outputs(id)
	runtest.Equal(t, "output", outputs[0], "drawn png 7 image/png true\n")
	runtest.Equal(t, "output of the next program", strings.HasPrefix(outputs[1], "png 9 image/png true\n[error] "), true)
	runtest.Equal(t, "drawn", c.Count("draw"), 1)
	user, ofDraw := "image/png "+refTo(given).Digest, "image/png "+refTo(drawn).Digest
	runtest.EqualLists(t, "shown with the output", shown(b, 1), []string{user, ofDraw})
	runtest.EqualLists(t, "shown with the error", shown(b, 2), []string{user, ofDraw, user})
	nested := harness.Find[*events.ToolNestedReturned](b, id)[0].Result.Attachments
	runtest.DeepEqual(t, "recorded of the call", nested, []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: refTo(drawn)}})
	runtest.DeepEqual(t, "stored", harness.Find[*events.BodyStored](b, id)[0].Blob, refTo(given))
	runtest.Equal(t, "number of them", len(harness.Find[*events.BodyStored](b, id)), 1)
	harness.VerifyHistory(t, b.Bus, id)
}

func testStoredBody(t *testing.T) {
	body := picture(t, 5)
	stored := make(chan struct{}, 1)
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "draw", "{}")), harness.Reply(harness.Text("done")))
	runs := 0 // one after the other
	plugin.AddTool(b.Tools, plugin.Tool{Name: "draw", Effects: events.EffectsIdempotent}, func(ctx context.Context, call plugin.Call, _ struct{}) (plugin.Result, error) {
		runs++
		ref, err := call.Host.StoreBody(ctx, body)
		if err == nil {
			_, err = call.StoreBody(ctx, body)
		}
		if runs == 1 {
			stored <- struct{}{}
			<-ctx.Done()
			err = ctx.Err()
		}
		return plugin.Result{Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref}}}, err
	})
	kill := b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "a stored body", stored)
	sweeper, now := follow.NewBlobSweeper(b.Bus), time.Now()
	for _, at := range []time.Time{now, now.Add(24 * time.Hour)} {
		_, err := sweeper.Sweep(b.Ctx, at)
		runtest.WantError(t, "sweep", err, nil)
	}
	got, err := b.ReadBlob(b.Ctx, id, refTo(body).Digest)
	runtest.WantError(t, "read while the call runs", err, nil)
	runtest.Equal(t, "body", bytes.Equal(got, body), true)
	kill()
	b.StartWorker(b.Bus)
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "runs", runs, 2)
	runtest.Equal(t, "records of it", len(harness.Find[*events.BodyStored](b, id)), 1)
	runtest.EqualLists(t, "shown", shown(b, 1), []string{"image/png " + refTo(body).Digest})
}

func testForeignBody(t *testing.T) {
	theirs, own := picture(t, 3), picture(t, 4)
	show := func(ref events.BlobRef) string {
		return fmt.Sprintf("print(1)\nshow({\"media_type\": \"image/png\", \"digest\": %q, \"size\": %d})", ref.Digest, ref.Size)
	}
	wrong := events.BlobRef{Digest: refTo(own).Digest, Size: 1}
	b := harness.StartIdle(t, harness.Program(show(refTo(theirs))), harness.Program(show(wrong)), harness.Program("attempt(name)\nprint(attempt(name).error)"), harness.Reply(harness.Text("done")))
	var read, large, empty error
	plugin.AddTool(b.Tools, plugin.Tool{Name: "name"}, func(ctx context.Context, call plugin.Call, _ struct{}) (plugin.Result, error) {
		_, read = call.Host.ReadBody(ctx, refTo(theirs).Digest)
		_, large = call.Host.StoreBody(ctx, make([]byte, events.MaxBlobBytes+1))
		_, empty = call.Host.StoreBody(ctx, nil)
		return plugin.Result{Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: refTo(theirs)}}}, nil
	})
	b.StartCodeNode(b.Bus)
	_, err := b.StoreBlob(b.Ctx, b.Open(api.CreateRequest{}), theirs)
	runtest.WantError(t, "store in another session", err, nil)
	id := b.Open(harness.CodeSession())
	_, err = b.StoreBlob(b.Ctx, id, own)
	runtest.WantError(t, "store", err, nil)
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.WantError(t, "read", read, api.ErrUnknownBlob)
	runtest.WantError(t, "store above the limit", large, events.ErrTooLarge)
	runtest.Equal(t, "field of an empty one", fmt.Sprint(errors.As(empty, new(*events.FieldError))), "true")
	results := harness.ToolResults(b, id)
	for i, want := range []string{plugin.CodeUnknownBody, plugin.CodeUnknownBody, ""} {
		runtest.Equal(t, fmt.Sprint("code of program ", i), results[i].Code, want)
		runtest.Equal(t, fmt.Sprint("attachments of program ", i), len(results[i].Attachments), 0)
	}
	runtest.Equal(t, "failure of the tool", strings.Contains(results[2].Text, "names no such body"), true)
	_, err = b.FindBlobs(b.Ctx, id, refTo(theirs).Digest)
	runtest.WantError(t, "of the session", err, api.ErrUnknownBlob)
}
