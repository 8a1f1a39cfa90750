package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// FindBlobs implements [api.Bodies]. It finds references; a digest in the text of a message is none.
func (r *Reader) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	if len(digests) > api.MaxDigests {
		return nil, &events.FieldError{Field: "digests", Reason: fmt.Sprintf("name %d bodies, limit is %d", len(digests), api.MaxDigests), Err: events.ErrTooLarge}
	}
	return r.FindAnyBlobs(ctx, id, digests)
}

// FindAnyBlobs is [Reader.FindBlobs] for any number of digests.
func (r *Reader) FindAnyBlobs(ctx context.Context, id events.SessionID, digests []string) ([]events.BlobRef, error) {
	wanted := search{found: make(map[string]events.BlobRef, len(digests))}
	for _, digest := range digests {
		if err := events.CheckDigest("digest", digest); err != nil {
			return nil, err
		}
		wanted.found[digest] = events.BlobRef{}
	}
	wanted.left = len(wanted.found)
	s, err := r.State(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return nil, err
	}
	wanted.add(events.RefsIn(s.Head))
	for i := 0; i < len(nodes) && wanted.left > 0; i++ {
		wanted.add(events.RefsIn(nodes[i]))
	}
	if err := r.searchLog(ctx, id, &wanted); err != nil {
		return nil, fmt.Errorf("find body: %w", err)
	}
	refs := make([]events.BlobRef, len(digests))
	for i, digest := range digests {
		if refs[i] = wanted.found[digest]; refs[i].IsZero() {
			return nil, fmt.Errorf("body %s of session %s: %w", digest, id, api.ErrUnknownBlob)
		}
	}
	return refs, nil
}

// search looks for references by their digests.
type search struct {
	found map[string]events.BlobRef // zero: not found yet
	left  int
}

// add records the references that are searched for. The first reference of a digest is the one found.
func (f *search) add(refs []events.BlobRef) {
	for _, ref := range refs {
		if have, ok := f.found[ref.Digest]; ok && have.IsZero() {
			f.found[ref.Digest] = ref
			f.left--
		}
	}
}

// searchLog reads the history until every digest is found.
func (r *Reader) searchLog(ctx context.Context, id events.SessionID, wanted *search) error {
	if wanted.left == 0 {
		return nil
	}
	for entry, err := range r.log.Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		if !entry.Commit.HasCiphertext() && !wanted.mayBeIn(entry.Data) {
			continue
		}
		for i := range entry.Commit.Events {
			if wanted.add(events.Refs(entry.Commit.Events[i].Payload)); wanted.left == 0 {
				return nil
			}
		}
	}
	return nil
}

// mayBeIn is false for a commit without any of the digests. With more than four digests it is always true: the search of
// the decoded commit is cheaper then.
func (f *search) mayBeIn(data []byte) bool {
	if f.left > 4 {
		return true
	}
	for digest, have := range f.found {
		if have.IsZero() && bytes.Contains(data, []byte(digest)) {
			return true
		}
	}
	return false
}

// ReadBlob implements [api.Bodies].
func (r *Reader) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	refs, err := r.FindBlobs(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	body, err := r.b.Blob(ctx, refs[0])
	if errors.Is(err, bus.ErrNotFound) {
		err = fmt.Errorf("body %s of session %s is gone: %w", digest, id, api.ErrUnknownBlob)
	}
	return body, err
}
