package bus_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
