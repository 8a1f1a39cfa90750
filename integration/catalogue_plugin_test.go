package integration

func pluginEntries() []entry { return nil }
