package events

import (
	"math/bits"
	"testing"
)

// TestKindsHaveOneSource: the events of a kind are given, decided, or either, and not two of these.
func TestKindsHaveOneSource(t *testing.T) {
	t.Parallel()
	for kind, row := range kinds {
		if n := bits.OnesCount(uint(row.about & (given | decided | either))); n != 1 {
			t.Errorf("kind %s: got %d of given, decided and either, want one", kind, n)
		}
	}
}

// TestPropertiesOfUnknownKinds: an event of an unknown kind is an input, no progress, and wakes no worker.
func TestPropertiesOfUnknownKinds(t *testing.T) {
	t.Parallel()
	const unknown Kind = "session.unheard_of"
	if IsDecided(unknown) || IsProgress(unknown) || WakesWorker(unknown) {
		t.Errorf("%s: got decided %t, progress %t, wakes %t, want none", unknown, IsDecided(unknown), IsProgress(unknown), WakesWorker(unknown))
	}
}
