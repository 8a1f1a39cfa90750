// Package page tests the web page of sessions in a browser.
package page

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.MainOfSmoke(m) }
