package llmtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(runtest.Select(m))
}
