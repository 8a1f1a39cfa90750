package remote

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }
