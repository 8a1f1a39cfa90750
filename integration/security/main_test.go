// Package security tests what each caller may do and see, and hostile requests, over NATS, HTTP and files.
package security

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.MainOfSmoke(m) }
