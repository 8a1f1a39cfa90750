// Package clients tests what clients see over Go, NATS and HTTP: operations, streams, observers, repeats of lost requests.
package clients

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
