package follow

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// ends is what statements say about a whole history.
type ends struct {
	size events.Seq // number of commits that could be read
	root proof.Hash // of these
	head string     // note of the last head among them
	err  error      // of the commit that could not be read
}

// readEnds reads a history from its beginning. An error means that the read failed, and not that the history is damaged.
func readEnds(ctx context.Context, log events.Log, session events.SessionID) (found ends, err error) {
	var tree proof.Tree // of the commits before the last one
	var last proof.Hash
	for e, err := range log.Read(ctx, session, 1) {
		if errors.Is(err, events.ErrOutcomeUnknown) || errors.Is(err, events.ErrNoSession) || ctx.Err() != nil {
			return found, fmt.Errorf("read the history to sign its root: %w", err)
		}
		if err != nil {
			found.err = err
			break
		}
		if e.Seq > 1 {
			tree.Append(last)
			tree.Keep(proof.KeptLeaves)
		}
		last, found.size = events.CommitHash(e.Data), e.Seq
		if h := proof.HeadOf(e); h != nil {
			found.head = h.Note
		}
	}
	found.root = tree.Root(last)
	return found, nil
}

// signerAt is the signer if its certificate is valid at the time that it is to sign, otherwise nil.
func signerAt(signer func() *proof.Signer, at events.Millis) *proof.Signer {
	if signer == nil {
		return nil
	}
	if s := signer(); s != nil && s.Certificate().ValidAt(at) {
		return s
	}
	return nil
}
