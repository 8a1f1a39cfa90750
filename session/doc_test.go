package session_test

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
)

func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	bustest.CheckFilesAreListed(t)
}
