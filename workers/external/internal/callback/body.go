package callback

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Bodies are the body that a call stores in pieces, and the one that it reads in pieces, see [wire.BodyPiece]. The zero Bodies has none. Each has
// memory of the call's.
type Bodies struct {
	mu      sync.Mutex
	ref     events.BlobRef // of stored
	stored  []byte         // the pieces of it that have come
	storing *memory.Account
	path    string // of whole, which was read last
	whole   []byte
	reading *memory.Account
}

// Close gives back what the bodies of a call have. The call has ended.
func (b *Bodies) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range []*memory.Account{b.storing, b.reading} {
		if a != nil {
			a.Close()
		}
	}
}

// retake gives back what a body has, and takes bytes for another one.
func retake(ctx context.Context, a **memory.Account, bytes int64) error {
	if *a != nil {
		(*a).Close()
	}
	ctx, *a = memory.Part(ctx)
	return memory.Take(ctx, bytes)
}

// errNoFollower reports a piece that does not follow the one before.
var errNoFollower = errors.New("does not follow the piece before")

// add takes the next piece of a body, and returns the whole body with the last one.
func (b *Bodies) add(ctx context.Context, p *wire.BodyPiece) (whole []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ref := events.BlobRef{Digest: p.Digest, Size: p.Size}
	if p.Size < 1 || p.Size > wire.MaxBodyBytes {
		return nil, &events.FieldError{Field: "size", Reason: fmt.Sprintf("is %d, want 1 to %d", p.Size, wire.MaxBodyBytes), Err: events.ErrTooLarge}
	}
	if len(p.Data) == 0 || len(p.Data) > wire.MaxBodyPiece {
		return nil, &events.FieldError{Field: "data", Reason: fmt.Sprintf("has %d bytes, want 1 to %d", len(p.Data), wire.MaxBodyPiece), Err: events.ErrInvalid}
	}
	if p.Offset == 0 {
		b.ref, b.stored = events.BlobRef{}, nil
		if err := retake(ctx, &b.storing, p.Size); err != nil {
			return nil, err
		}
		b.ref = ref
	}
	if b.ref != ref || p.Offset != int64(len(b.stored)) {
		return nil, &events.FieldError{Field: "offset", Reason: fmt.Sprintf("%d %s: begin with 0", p.Offset, errNoFollower), Err: errNoFollower}
	}
	if b.stored = append(b.stored, p.Data...); int64(len(b.stored)) < p.Size {
		return nil, nil
	}
	whole, b.ref, b.stored = b.stored, events.BlobRef{}, nil
	_ = retake(ctx, &b.storing, 0) // the request that stores it has its own
	if sum := sha256.Sum256(whole); int64(len(whole)) != p.Size || hex.EncodeToString(sum[:]) != p.Digest {
		return nil, &events.FieldError{Field: "digest", Reason: "or size is not that of the data", Err: events.ErrInvalid}
	}
	return whole, nil
}

// store serves a request that stores a piece. The API stores the whole body, with the key of its bytes: a call that runs again stores it once.
func (a *API) store(c *caller, w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code, field string, err error) {
		a.reply(c, w, r, &operation.StoreBlob.Row, Problem(status, code, field, err.Error()), code, err.Error())
	}
	var piece wire.BodyPiece
	data, err := io.ReadAll(r.Body) // the callback has it
	if err == nil {
		err = json.Unmarshal(data, &piece)
	}
	if err != nil {
		refuse(http.StatusBadRequest, "malformed", "body", err)
		return
	}
	whole, err := c.bodies.add(r.Context(), &piece)
	wrong, _ := errors.AsType[*events.FieldError](err)
	switch {
	case errors.Is(err, errNoFollower):
		refuse(http.StatusConflict, "conflict", wrong.Field, err)
	case errors.Is(err, api.ErrMemory):
		refuse(http.StatusTooManyRequests, "memory_in_use", "", err)
	case errors.Is(err, events.ErrTooLarge):
		refuse(http.StatusRequestEntityTooLarge, "too_large", wrong.Field, err)
	case err != nil:
		refuse(http.StatusBadRequest, "invalid_parameter", wrong.Field, err)
	case whole == nil:
		a.reply(c, w, r, &operation.StoreBlob.Row, &wire.CallbackAnswer{Status: http.StatusAccepted}, "", "")
	default:
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(whole)), int64(len(whole))
		r.Header.Set("Content-Type", "application/octet-stream")
		r.Header.Set("Idempotency-Key", events.DerivedID("cb-", string(c.session), c.call, piece.Digest))
		a.server.ServeHTTP(w, r)
	}
}

// read serves a request that reads a piece. The call keeps the whole body until its last piece.
func (a *API) read(c *caller, w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code, field, why string) {
		a.reply(c, w, r, operation.ReadBlob, Problem(status, code, field, why), code, why)
	}
	offset, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("offset"), "0"), 10, 64)
	if err != nil {
		refuse(http.StatusBadRequest, "invalid_parameter", "offset", "offset: is no number")
		return
	}
	body := c.bodies.kept(r.URL.Path)
	if body == nil {
		in := r.Clone(r.Context())
		in.URL.RawQuery = ""
		got := &answerWriter{header: w.Header(), limit: wire.MaxBodyBytes}
		a.server.ServeHTTP(got, in)
		switch {
		case got.failed != nil:
			refuse(http.StatusRequestEntityTooLarge, "too_large", "body", fmt.Sprintf("body: has more than %d bytes", wire.MaxBodyBytes))
			return
		case got.status != http.StatusOK:
			w.WriteHeader(got.status)
			_, _ = w.Write(got.body.Bytes())
			return
		}
		body = got.body.Bytes()
		if err := c.bodies.keep(r.Context(), r.URL.Path, body); err != nil {
			refuse(http.StatusTooManyRequests, "memory_in_use", "", err.Error())
			return
		}
	}
	size := int64(len(body))
	if offset < 0 || offset >= size {
		refuse(http.StatusBadRequest, "invalid_parameter", "offset", fmt.Sprintf("offset: is %d, the body has %d bytes", offset, size))
		return
	}
	if offset+wire.MaxBodyPiece >= size { // the call may go on for long
		_ = c.bodies.keep(r.Context(), "", nil)
	}
	data, _ := json.Marshal(&wire.BodyPiece{ // a text, numbers and bytes
		Digest: r.PathValue("digest"), Size: size, Offset: offset, Data: body[offset:min(offset+wire.MaxBodyPiece, size)],
	})
	a.reply(c, w, r, operation.ReadBlob, &wire.CallbackAnswer{Status: http.StatusOK, Body: data}, "", "")
}

func (b *Bodies) kept(path string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != path {
		return nil
	}
	return b.whole
}

func (b *Bodies) keep(ctx context.Context, path string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.path, b.whole = "", nil
	err := retake(ctx, &b.reading, int64(len(body)))
	if err == nil {
		b.path, b.whole = path, body
	}
	return err
}
