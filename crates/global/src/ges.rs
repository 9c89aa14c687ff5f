pub struct GesMaster;
pub struct GesShadow;
