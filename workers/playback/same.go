package playback

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
)

// History is a history and what reads its bodies.
type History struct {
	State *projector.State
	Blobs blob.Store
}

// Unlike returns the first difference between the conversations of two histories: their messages, reasoning, calls, results
// and attachments, on all branches in the order of the log. It ignores ids, times and turns. Equal ones give "". The error is
// of reading.
func Unlike(ctx context.Context, a, b History) (string, error) {
	left, err := historyItems(ctx, a.Blobs, a.State)
	if err != nil {
		return "", err
	}
	right, err := historyItems(ctx, b.Blobs, b.State)
	if err != nil {
		return "", err
	}
	left, right = inLane(left, "message"), inLane(right, "message")
	for i := range max(len(left), len(right)) {
		switch {
		case i == len(right):
			return fmt.Sprintf("%v is only in the first", left[i]), nil
		case i == len(left):
			return fmt.Sprintf("%v is only in the second", right[i]), nil
		case !left[i].same(right[i]):
			return fmt.Sprintf("%v in the first is %v in the second", left[i], right[i]), nil
		}
	}
	return "", nil
}
