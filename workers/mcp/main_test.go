package mcp

import (
	"os"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) {
	os.Exit(runtest.Select(m).Run())
}
