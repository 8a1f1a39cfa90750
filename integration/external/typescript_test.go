package external

import "path/filepath"

// sdk is the folder of the SDK of TypeScript.
var sdk = filepath.Join("..", "..", "sdk", "typescript")
